"""What the drain bench does to a guest so that as much can leave as it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from bench import drained_guest as drain
from bench.harness.scale import Scale
from bench.suite.drain import told
from memhint.objects.units import MIB


class Touching:
    """A guest whose kernel hands out what was never touched before everything else, as the real one was seen to do."""

    def __init__(self, free_mib: int, kept_mib: int) -> None:
        self._free = free_mib
        self._kept = kept_mib  # nobody gets it
        self.touched = 0

    def run(self, line: str) -> str:
        """What is free, in KiB."""
        assert "MemFree" in line
        return f"{self._free * 1024}\n"

    def hold(self, mib: int) -> None:
        """Touch that much."""
        assert mib < self._free - self._kept, "the guest's kernel would kill it"
        self.touched = mib

    def release(self) -> None:
        """Free it again."""

    def qmp(self, command: str, **arguments: Any) -> None:
        """Inflate."""
        assert command == "balloon"
        taken = drain.MEMORY_MIB - arguments["value"] // MIB
        untouched = self._free - self.touched
        self.left = max(0, taken - untouched)
        assert taken <= self._free - self._kept


@pytest.mark.parametrize("mib", [256, 512, 1280])
@pytest.mark.parametrize("free", [1880, 2000])
def test_as_much_leaves_with_the_balloon_as_is_waited_for(mib: int, free: int) -> None:
    guest = Touching(free, 16)
    drain.BALLOON.prepare(guest, mib)  # type: ignore[arg-type]
    drain.BALLOON.start(guest, mib)  # type: ignore[arg-type]
    assert guest.left >= drain.ENOUGH * mib


def test_a_round_that_did_not_come_to_90_percent_is_told() -> None:
    way = drain.BALLOON
    short = drain.Drain(512 * MIB, ((0.0, 0.0), (1.0, 0.83 * 512 * MIB)))
    whole = drain.Drain(512 * MIB, ((0.0, 0.0), (1.0, 512.0 * MIB)))
    ways = (drain.STOCK, drain.PRESSED, way)
    drains = {512: {drain.STOCK.name: [whole] * 2, drain.PRESSED.name: [whole] * 2, way.name: [whole, short]}}
    assert "512 MiB, balloon inflated: 1 of 2 rounds never came to 90 %." in told(Scale.SHORT, ways, drains, {}).notes
