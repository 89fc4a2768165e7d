"""Reading ahead: all that a VM that wakes has in swap, while there is room for it and the VM uses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memhint.kernel.guest_advice import Swapped
from memhint.levers.read_ahead import ReadAhead, ReadAheadSettings, read_ahead
from memhint.objects.units import GIB, MIB

BLOCK = 2 * MIB


class Guest:
    """A guest that has blocks in swap and uses a part of what was read."""

    def __init__(self, blocks: int, size: int = BLOCK, uses: float = 1.0) -> None:
        self.blocks = [Swapped(place * BLOCK, BLOCK, size) for place in range(blocks)]
        self.read: list[Swapped] = []
        self.uses = uses
        self.now = 100.0
        self.free = GIB
        self.stopping = False

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def swapped(self) -> Iterator[Swapped]:
        yield from self.blocks

    def will_need(self, block: Swapped) -> None:
        self.read.append(block)
        self.free -= block.size

    def in_swap(self) -> int:
        return sum(one.size for one in self.blocks) - int(self.uses * sum(one.size for one in self.read))

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def ahead(self, **settings: Any) -> ReadAhead:
        return read_ahead(
            self,
            self.in_swap,
            lambda: self.free,
            ReadAheadSettings(**settings),
            clock=lambda: self.now,
            sleep=self.sleep,
            stop=lambda: self.stopping,
        )


def test_all_that_is_in_swap_is_read_and_no_block_twice() -> None:
    guest = Guest(100)
    assert guest.ahead() == ReadAhead(200 * MIB, "")
    assert guest.read == guest.blocks


def test_nothing_in_swap_is_nothing_to_read() -> None:
    assert Guest(0).ahead() == ReadAhead(0, "")


def test_it_keeps_its_pace() -> None:
    guest = Guest(100)
    guest.ahead(per_second=50 * MIB)
    assert 104.0 <= guest.now <= 104.1


def test_it_ends_before_the_host_s_reserve_is_touched() -> None:
    guest = Guest(100)
    guest.free = 40 * MIB
    found = guest.ahead()
    assert (found.size, guest.free) == (32 * MIB, 8 * MIB)
    assert "reserve" in found.ended


def test_a_vm_that_uses_little_of_it_is_not_awake() -> None:
    guest = Guest(1000, uses=0.1)
    found = guest.ahead(per_second=64 * MIB)
    assert 64 * MIB <= found.size <= 80 * MIB
    assert "uses little" in found.ended
    guest = Guest(1000, uses=0.2)
    guest.free = 4 * GIB
    assert guest.ahead(per_second=100 * MIB).ended == ""


def test_one_wake_has_its_time_and_ends_when_told() -> None:
    guest = Guest(1000)
    assert "30 s are over" in guest.ahead(per_second=10 * MIB).ended
    assert guest.now < 132.0
    guest = Guest(1000)
    guest.stopping = True
    assert guest.ahead() == ReadAhead(0, "told to stop")


def test_blocks_of_which_little_is_in_swap_are_counted_by_that() -> None:
    guest = Guest(512, size=4096)
    guest.free = 17 * MIB
    assert guest.ahead() == ReadAhead(2 * MIB, "")
