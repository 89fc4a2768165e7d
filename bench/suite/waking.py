"""How long a VM whose memory is in swap takes to have all of it again, against one that was left alone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure, Verdict, figure
from bench.harness.bench import Bench, Say
from bench.harness.precondition import no_other_guests
from bench.harness.result import Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.sleeping_guest import SleepingGuest, Wake, ahead_of
from lab import swap
from lab.cgroup import HostCgroup
from lab.paths import labs_dir
from lab.tiny_guest import waking_guest
from memhint.conf import swap_out
from memhint.objects.units import GIB, MIB, mib

GOAL = 1.3  # times as long as when left alone
JUDGED = 4  # times that the guest reads each word, of the row that is held against it
_SHIPPED = next(int(one.default) for one in swap_out.OPTS if one.name == "read_ahead_mib")


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes of the guest, how often it reads each word, one row each, and how often all of it is done."""

    guest: int
    readings: Sequence[int]
    rounds: int


SHAPES = {
    Scale.SMOKE: Shape(128 * MIB, (JUDGED,), 1),
    Scale.SHORT: Shape(1 * GIB, (1, 2, JUDGED), 3),
    Scale.FULL: Shape(2 * GIB, (1, 2, JUDGED, 8), 5),
}

_ABOUT = f"""
A guest in place of a BIOS uses all of its memory: it writes a word of each page and reads every word of it, once or
several times, before it goes on; each word has to be what it once wrote. First when all of it is resident, then when
all of it is in swap, where nothing of it is in the kernel's swap cache either. The guest is emulated on the machine's
own kernel, swaps to a file on the machine's own disk, and time is the wall clock's.

*memhint* is what the agent does for a VM whose policy is `swap_out=allow`: it looks ten times a second whether the VM
wakes, and reads ahead of it and maps what was read, `[swap_out] read_ahead_mib` a second at most, {_SHIPPED} as
shipped. The agent's own parts do so here, in the bench's process; the rest of the agent does not run.

How long it takes depends on how fast the guest uses its memory: nothing can be had from a disk, or through one
processor, faster than that gives it. What is judged is the guest that reads each word {JUDGED} times. A guest under KVM
that does the same with each page is faster than an emulated one, and is in the place of one that reads less here.
"""


def measure(scale: Scale, say: Say) -> Result:
    """Four minutes at the short scale."""
    no_other_guests()
    shape = SHAPES[scale if scale in SHAPES else Scale.FULL]
    found: dict[int, list[Wake]] = {often: [] for often in shape.readings}
    labs_dir().mkdir(parents=True, exist_ok=True)
    cgroup = HostCgroup("waking")
    with tempfile.TemporaryDirectory(prefix="waking-", dir=labs_dir()) as folder:
        file = Path(folder) / "swap"
        swap.add(file, 2 * shape.guest)
        try:
            cgroup.create(2 * shape.guest, 4 * shape.guest)
            with SleepingGuest(waking_guest(Path(folder), shape.guest), shape.guest, cgroup) as guest:
                for number in range(shape.rounds):
                    for often in shape.readings:
                        one = _round(guest, often, backwards=bool(number % 2))
                        say(
                            f"{often} readings: alone {one.alone:.2f} s, from swap {one.swap / one.alone:.2f} times, "
                            f"with memhint {one.ahead / one.alone:.2f}"
                        )
                        found[often].append(one)
        finally:
            cgroup.remove()
            swap.remove(file)
    return told(scale, shape, found)


def _round(guest: SleepingGuest, often: int, *, backwards: bool) -> Wake:
    alone = [guest.use(often)]
    took: dict[bool, tuple[float, int]] = {}
    for ahead in (True, False) if backwards else (False, True):
        guest.put_away()
        waits = guest.waits()
        took[ahead] = (ahead_of(guest, often) if ahead else guest.use(often), guest.waits() - waits)
        alone.append(guest.use(often))
    return Wake(sum(alone) / len(alone), took[False][0], took[True][0], took[False][1], took[True][1])


def told(scale: Scale, shape: Shape, found: Mapping[int, Sequence[Wake]]) -> Result:
    """The result of what was found."""
    environment: dict[str, Any] = {
        "guest_mib": mib(shape.guest),
        "rounds": shape.rounds,
        "read_ahead_mib": _SHIPPED,
    }
    return Result(
        "waking",
        scale,
        environment,
        (_table(shape, found),),
        targets(found),
        (Plot("A VM has its memory again", "times as long as left alone", table=0, column="ahead"),),
        ("Left alone is the mean of three times, before, between and after the two from swap.",),
    )


def targets(found: Mapping[int, Sequence[Wake]]) -> tuple[Verdict, ...]:
    """The median of the rounds of the guest that is judged."""
    ratio = figure([one.ahead / one.alone for one in found[JUDGED]]).median
    return (
        Verdict(f"times as long as when left alone, of a VM that reads each word {JUDGED} times", GOAL, None, ratio),
    )


def _table(shape: Shape, found: Mapping[int, Sequence[Wake]]) -> Table:
    columns = (
        Column("speed", "it uses its memory at", "MiB/s", 0),
        Column("alone", "left alone", "s", 2),
        Column("swap", "from swap", "times", 2),
        Column("ahead", "with memhint", "times", 2),
        Column("swap_waits", "waits for the disk, from swap", "", 0),
        Column("ahead_waits", "with memhint", "", 0),
    )

    def row(runs: Sequence[Wake]) -> dict[str, Figure | None]:
        return {
            "speed": figure([shape.guest / MIB / one.alone for one in runs]),
            "alone": figure([one.alone for one in runs]),
            "swap": figure([one.swap / one.alone for one in runs]),
            "ahead": figure([one.ahead / one.alone for one in runs]),
            "swap_waits": figure([one.swap_waits for one in runs]),
            "ahead_waits": figure([one.ahead_waits for one in runs]),
        }

    arms = [
        Arm("it reads each word once" if often == 1 else f"{often} times", row(runs)) for often, runs in found.items()
    ]
    return Table("A VM uses all of its memory, which is in swap", columns, arms)


BENCH = Bench("waking", "After a wake from swap", _ABOUT, measure)
