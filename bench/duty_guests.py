"""What the cycle of `recycle` leaves and costs, guest by guest: one of each arm, each on a host with room enough.

python -m bench.duty_guests [--periods N] [--json FILE]

Only one guest is busy at a time, nothing is merged, and instructions are counted one by one: what the arms differ by is
neither the room that a host has nor what else its guests do.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.cpu import minor_faults, thread_seconds
from bench.filled_host import TRANSLATION_CACHE, Setup
from bench.harness.precondition import ksm_is_off
from bench.harness.scale import Scale
from bench.resident import resident_of
from bench.rota import VIRTUAL_CPU, Cycle
from bench.suite.recycle import MEMHINT, RECYCLER, STOCK, settings_of, sizes_of
from bench.total import compiled_plugin, counted, counting, with_plugin
from lab import Guest, Lab
from lab.agent import AgentProcess
from lab.host import Host
from lab.waiting import wait_for
from memhint.objects.units import GIB, MIB

PERIOD = 100.0  # seconds from one cycle to the next of a guest
REST = 60.0  # seconds after the end of a cycle when it is looked at what is left of it
_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Spent:
    """One cycle of one guest. ``held`` and ``free`` are of its memory, REST seconds after; bytes."""

    arm: str
    instructions: int  # of the guest, from the beginning of the cycle to its end
    cpu: float  # seconds that the guest's processor took of the host meanwhile
    faults: int  # of QEMU
    held: int  # that the host holds
    free: int  # as the guest says
    own: int  # QEMU's, beside it

    def beyond(self, memory: int) -> int:
        """Bytes that the host holds of what is free; below 0 where the guest has not touched all that it uses."""
        return self.held - (memory - self.free)


@dataclass(frozen=True, slots=True)
class Counted:
    """A guest, and the file that its instructions are counted in."""

    arm: str
    guest: Guest
    counter: Path

    def now(self) -> tuple[int, float, int]:
        """Instructions, seconds of its processor, and faults of QEMU so far."""
        process = Path(f"/proc/{self.guest.pid()}")
        return counted(self.counter), thread_seconds(process, VIRTUAL_CPU), minor_faults(process)


class Turn:
    """The cycles of one guest, one after the other."""

    def __init__(self, one: Counted, cycle: Cycle) -> None:
        self._one, self._cycle = one, cycle
        self._before = self._spent = (0, 0.0, 0)

    def begin(self) -> None:
        """The next one."""
        self._before = self._one.now()
        self._one.guest.duty(self._cycle.files, self._cycle.size, round(1000 * self._cycle.step))

    def end(self) -> None:
        """Wait for its end. Raises Timeout where it does not come."""
        guest = self._one.guest
        wait_for(lambda: not guest.duty_done()["running"], _PATIENCE, f"{self._one.arm}: a cycle to end", interval=1.0)
        after, before = self._one.now(), self._before
        self._spent = after[0] - before[0], after[1] - before[1], after[2] - before[2]

    def rest(self) -> Spent:
        """What it came to, and what is left of it."""
        guest = self._one.guest
        seen = resident_of(guest.pid(), guest.memory)
        # What is merged elsewhere is the guest's, too: nothing merges here.
        return Spent(self._one.arm, *self._spent, seen.guest + seen.merged, int(guest.meminfo()["MemFree"]), seen.own)


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--periods", type=int, default=3, help="cycles of each guest; the first is not counted")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    ksm_is_off()
    sizes, cycle = sizes_of(Scale.SHORT)
    found = measured((STOCK, MEMHINT, RECYCLER), sizes.guest, cycle, max(2, options.periods))
    print("\n".join(rows(found, sizes.guest)))
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 0


def measured(setups: Sequence[Setup], memory: int, cycle: Cycle, periods: int) -> list[Spent]:
    """The cycles of one guest of each arm, the first of each left out: it is the first to touch its memory."""
    period = max(PERIOD, cycle.busy + REST)
    with guests_of(setups, memory, cycle) as guests:
        at = time.monotonic()
        turns = [
            (at + number * period / len(guests) + turn * period + after, what, guest)
            for turn in range(periods)
            for number, guest in enumerate(guests)
            for what, after in ((Turn.begin, 0.0), (Turn.end, cycle.busy), (Turn.rest, cycle.busy + REST))
        ]
        going = {guest.arm: Turn(guest, cycle) for guest in guests}
        found = []
        for moment, what, guest in sorted(turns, key=lambda turn: turn[0]):
            time.sleep(max(0.0, moment - time.monotonic()))
            done = what(going[guest.arm])
            if done is not None:
                found.append(done)
    return found[len(setups) :]


@contextmanager
def guests_of(setups: Sequence[Setup], memory: int, cycle: Cycle) -> Iterator[list[Counted]]:
    """A host for each arm, with its agent where it has one, and a guest on it whose instructions are counted."""
    with ExitStack() as stack:
        lab = Lab(
            hosts=len(setups),
            guests=0,
            memory=memory,
            budget=memory + GIB,
            emulator="memhint",
            translation_cache=TRANSLATION_CACHE,
        )
        stack.enter_context(lab)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memhint-duty-")))
        plugin = compiled_plugin(folder, str(lab.emulator_program("memhint")))
        found = []
        for number, (host, setup) in enumerate(zip(lab.hosts, setups, strict=True)):
            if setup.memhint is not None:
                settings = settings_of(cycle) if setup is RECYCLER else setup.memhint
                stack.enter_context(AgentProcess(host, alone(settings)))
            counter = folder / f"{number}"
            found.append(Counted(setup.name, _guest(host, setup, plugin, counter), counter))
        yield found


def alone(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """An arm's settings without what holds for the whole machine: merging, and khugepaged."""
    left = {name: group for name, group in settings.items() if name != "khugepaged"}
    return {**left, "policy": {**settings["policy"], "dedup": "off"}}


def _guest(host: Host, setup: Setup, plugin: Path, counter: Path) -> Guest:
    guest = host.add_guest(
        "vm1", kernel=setup.kernel, agent=setup.agent, recycler=setup.recycler, reporting=setup.reporting, start=False
    )
    described = with_plugin(guest.domain().XMLDesc(), counting(plugin, counter), "")
    host.connection().defineXML(described)
    guest.start()
    return guest


def rows(found: Sequence[Spent], memory: int) -> Iterator[str]:
    """What is printed: a line for each arm, medians of its cycles."""
    yield "arm | instructions, million | CPU, s | faults | held beyond what is in use, MiB | QEMU's own, MiB"
    for arm in dict.fromkeys(one.arm for one in found):
        mine = [one for one in found if one.arm == arm]
        figures = (
            f"{median(one.instructions for one in mine) / 1e6:.0f}",
            f"{median(one.cpu for one in mine):.2f}",
            f"{median(one.faults for one in mine):.0f}",
            f"{median(one.beyond(memory) for one in mine) / MIB:.1f}",
            f"{median(one.own for one in mine) / MIB:.1f}",
        )
        yield " | ".join((arm, *figures))


if __name__ == "__main__":
    sys.exit(main())
