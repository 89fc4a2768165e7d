"""What an idle guest waits for when it allocates again, on a host that has its memory back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from bench import filled_host
from bench.figures import Verdict, figure
from bench.filled_host import Sizes
from bench.harness.bench import Bench, Say
from bench.harness.precondition import ksm_is_off, no_other_guests
from bench.harness.result import Arm, Column, Plot, Result, Table
from bench.harness.scale import Scale
from bench.suite.density import FLAT_OUT, MEMHINT, PACKED, STOCK
from bench.suite.density import sizes_of as density_sizes
from bench.woken_guests import Shape, Woken, in_turns, next_allocations, slowest, usual
from memhint.objects.units import mib

GOAL = 1.05  # times what stock reporting's guests take
TICK = 0.01  # seconds that CPU time is counted in: less may show as none

_ABOUT = """
A guest that freed its memory gets it back from the host when it allocates again: page by page, zeroed, and after what
was merged meanwhile has been separated. Guests of the size of [density](#density), as that bench sets them up, use
their memory once, free it and lie idle; then some of them use as much again, one after another, each several times with
a rest between. Memory is there in all arms. The arms take turns, every other one backwards, each turn with new guests.
With memhint a guest that wakes must not be held up by the agent either: it goes on reporting as an idle one for as long
as `[ladder] busy_for` says, for getting its own settings back takes calls to its guest agent, and is called once when
it rests again. The settings are those of density.
"""


_NOTES = (
    "Other work on the machine adds to QEMU's CPU time, and far more to the time waited: only arms of one run compare.",
    "A guest counts by the middle of its rounds. Single allocations spread more, in every arm: see the ranges.",
)


def sizes_of(scale: Scale) -> tuple[Sizes, Shape]:
    """Bytes of a scale, and its guests; those of density's full scale already at the short one."""
    shape = {
        Scale.SMOKE: Shape(1, 1, 1, turns=1),
        Scale.SHORT: Shape(2, 2, 2, turns=2),
        Scale.FULL: Shape(4, 3, 3, turns=2),
        Scale.SEED: Shape(4, 3, 3, turns=2),
    }[scale]
    sizes = density_sizes(Scale.FULL if scale is Scale.SHORT else scale)
    # KSM may go on between two allocations, as it does on a host: nothing depends on its having ended.
    return sizes if scale is Scale.SMOKE else replace(sizes, quiet=4.0, patience=20.0), shape


def measure(scale: Scale, say: Say) -> Result:
    """The arms take turns, some minutes each."""
    no_other_guests()
    ksm_is_off()
    sizes, shape = sizes_of(scale)
    setups = (STOCK, MEMHINT) if scale is Scale.SMOKE else (STOCK, FLAT_OUT, MEMHINT)
    found: dict[str, list[Woken]] = {one.name: [] for one in setups}
    for one in in_turns(setups, shape.turns):
        found[one.name] += next_allocations(one, sizes, shape, say)
    return Result(
        "next_allocation",
        scale,
        {
            **filled_host.environment(sizes),
            "allocation_mib": mib(sizes.work),
            "guests": f"{shape.guests}, of which {shape.waking} allocate again, {shape.rounds} times each",
            "turns": shape.turns,
            "memhint": {name: dict(group) for name, group in PACKED.items()},
        },
        (_table(found),),
        targets(found),
        (Plot("CPU time of a next allocation", "s", column="cpu"),),
        _NOTES,
    )


def targets(found: Mapping[str, Sequence[Woken]]) -> tuple[Verdict, ...]:
    """The middle and the slowest guest, held against the middle one of stock reporting."""
    mine, stock = found[MEMHINT.name], max(usual(found[STOCK.name]), TICK)
    return (
        Verdict("times stock reporting's CPU time for a next allocation", GOAL, None, usual(mine) / stock),
        Verdict("the slowest guest, times stock's median", GOAL, None, slowest(mine) / stock),
    )


def _table(found: Mapping[str, Sequence[Woken]]) -> Table:
    columns = (
        Column("cpu", "CPU of QEMU", "s", 2),
        Column("slowest", "that of the slowest guest", "s", 2),
        Column("wall", "waited", "s", 2),
    )
    arms = [
        Arm(
            name,
            {
                "cpu": figure(list(chain.from_iterable(one.cpu for one in woken))),
                "slowest": figure([slowest(woken)]),
                "wall": figure(list(chain.from_iterable(one.wall for one in woken))),
            },
        )
        for name, woken in found.items()
    ]
    return Table("A next allocation", columns, arms)


BENCH = Bench("next_allocation", "A next allocation", _ABOUT, measure)
