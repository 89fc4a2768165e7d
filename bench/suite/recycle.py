"""Recycling: guests that use most of their memory for a tenth of the time, without swap on one host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from bench import filled_host, ksm
from bench.duty_host import PeriodResult, bear
from bench.figures import Figure, Verdict, figure
from bench.filled_host import Setup, Sizes
from bench.harness.bench import Bench, Say
from bench.harness.precondition import ksm_is_off, no_other_guests
from bench.harness.result import BYTES, Arm, Column, Curve, Plot, Result, Table
from bench.harness.scale import Scale
from bench.rota import Cycle
from bench.suite.density import PACKED, PLAIN
from memhint.conf import recycler
from memhint.objects.units import GIB, MIB, mib

GOAL_GUESTS = 10.0  # times those that fit as they are; the source has 7.7
GOAL_PEAK = 1.1  # of the CPU that a guest with stock reporting takes for its cycle

WITHOUT: Mapping[str, Mapping[str, Any]] = {**PACKED, "khugepaged": {"own": True}}
WITH: Mapping[str, Mapping[str, Any]] = {
    **WITHOUT,
    "ladder": {**PACKED["ladder"], "always": "reporting,cache,recycler,order"},
}
"""The same, and single pages of idle guests come back through the recycler: what is reported then is no finer than what
its table does not describe takes."""
HALF_HOUR = 1800.0  # seconds: the posted test's period
SHIPPED = next(float(one.default) for one in recycler.OPTS if one.name == "period")

NOTHING = Setup("no reporting", PLAIN, reporting=False)
FLAT_OUT = Setup(
    "no reporting, KSM flat out",
    PLAIN,
    reporting=False,
    ksm={**ksm.FLAT_OUT, "use_zero_pages": "0", "pages_to_scan": "1000000", "sleep_millisecs": "0"},
)
STOCK = Setup("stock reporting, order 9", PLAIN)
MEMHINT = Setup("memhint without the recycler", "6.12-memhint", agent="memhint", memhint=WITHOUT)
RECYCLER = Setup("memhint with the recycler", "6.12-recycler", agent="memhint", memhint=WITH, recycler=True)
_PUBLISHED = {
    NOTHING.name: "67",
    FLAT_OUT.name: "73",
    RECYCLER.name: "516, on average 182 of 230 GB (recycling and parallel merging)",
}

_ABOUT = """
The test of the per-page recycler that was posted in 2017: VMs of 4 GiB on a host of 230 GB. In each half hour every one
of them fills files in memory with random content, 20 MB each 0.6 s, until they have 3 GiB, and removes them as slowly.
So a guest uses 150 MiB on average. How many fit?

Guests come one after the other, until the host is too small for them also when those that are behind have caught up: a
guest that boots takes the others' processor where it is emulated. Then the newest go again, one in twenty, until for a
whole period nothing goes to swap and all that is in use, in memory and in what is still in swap, fits into the host;
what the table says is of that period. The page cache of files does not count as used. The posted
test draws the time at which a guest begins; here they are spread evenly over the period, the same in all arms, so that
luck decides nothing.

A guest is smaller here and its period shorter, with the same shape: three quarters of its memory at the peak, a tenth
of the time busy, 5 % of its peak on average; the recycler looks through a guest's marks as often in a period as it does
with the shipped settings in half an hour. Two things of that do not scale. QEMU's own memory, which no lever gives back
and which is larger in emulation than with KVM, is less than 1 % of a guest of 4 GiB, and a third of what a small one
takes on average. And of few guests that fit as they are a fraction is lost. So there are two more columns: *by bytes*
is the host's memory over what one guest takes when all take most, without rounding; *by guests' memory* is the same
without QEMU's own. The target is held against guests that were there, whole ones.
"""


def sizes_of(scale: Scale) -> tuple[Sizes, Cycle]:
    """Bytes and guests of a scale, and what each guest does."""
    if scale is Scale.SMOKE:
        small = Sizes(640 * MIB, 256 * MIB, 64 * MIB, 512 * MIB, most=1, translation_cache=filled_host.SMOKE_CACHE)
        return small, Cycle(10.0, 8, 8 * MIB, 0.0625)
    if scale is Scale.SHORT:
        cycle = Cycle(180.0, 24, 24 * MIB, 0.375)  # 4 to 5 s of CPU of an emulated guest: two cores bear sixty
        return Sizes(3 * GIB, 768 * MIB, cycle.peak, 5 * GIB, most=80), cycle
    cycle = Cycle(240.0, 24, 32 * MIB, 0.5)  # and 6 s for this
    return Sizes(4 * GIB, GIB, cycle.peak, 8 * GIB, most=80), cycle


def settings_of(cycle: Cycle) -> dict[str, Mapping[str, Any]]:
    """What the agent with the recycler is told: its pace is the shipped one, shortened as the time is."""
    return {**WITH, "recycler": {"period": round(SHIPPED * cycle.period / HALF_HOUR, 2)}}


def measure(scale: Scale, say: Say) -> Result:
    """An hour at the short scale, two at the full one: the arms run one after another."""
    no_other_guests()
    ksm_is_off()
    sizes, cycle = sizes_of(scale)
    mine = replace(RECYCLER, memhint=settings_of(cycle))
    setups = (STOCK, mine) if scale is Scale.SMOKE else (NOTHING, FLAT_OUT, STOCK, MEMHINT, mine)
    found = {one.name: bear(one, sizes, cycle, say) for one in setups}
    return Result(
        "recycle",
        scale,
        _environment(sizes, cycle),
        (_borne(found, sizes.budget), _costs(found)),
        targets(found),
        (
            Plot("Guests that fit", "guests", column="guests"),
            Plot("Memory in use over a period", "MiB", x="seconds", curves=_used(found)),
        ),
        notes(found, cycle, sizes.budget),
    )


def targets(found: Mapping[str, PeriodResult]) -> tuple[Verdict, ...]:
    """What was hoped for; where an arm did not run, what is compared with it is left out."""
    mine, plain, stock = found[RECYCLER.name], found.get(NOTHING.name), found[STOCK.name]
    verdicts = []
    if plain is not None:
        verdicts.append(Verdict("times the guests that fit as they are", None, GOAL_GUESTS, mine.guests / plain.guests))
    verdicts.append(Verdict("guests killed", 0.0, None, float(mine.kills)))
    if mine.cycles and stock.cycles:
        share = _peak_cpu(mine) / max(_peak_cpu(stock), 0.001)
        verdicts.append(Verdict("of the CPU for a cycle with stock reporting", GOAL_PEAK, None, share))
    return tuple(verdicts)


def by_bytes(one: PeriodResult, budget: int, *, own: bool = True) -> float:
    """Guests that the bytes of a host are worth, each as large as they were on average when all took most.

    :param own: with QEMU's own memory
    """
    return budget * one.guests / (max(one.used) - (0 if own else one.own))


def notes(found: Mapping[str, PeriodResult], cycle: Cycle, budget: int) -> tuple[str, ...]:
    """What the figures do not say by themselves."""
    said = []
    if (plain := found.get(NOTHING.name)) is not None:
        for name in (MEMHINT.name, RECYCLER.name):
            if (one := found.get(name)) is not None:
                whole, parts, alone = (
                    one.guests / plain.guests,
                    by_bytes(one, budget) / by_bytes(plain, budget),
                    by_bytes(one, budget, own=False) / by_bytes(plain, budget, own=False),
                )
                said.append(
                    f"{name}, times those that fit as they are: {whole:.1f} in whole guests, {parts:.1f} by bytes, "
                    f"{alone:.1f} by guests' memory"
                )
    said += [
        f"{name}: no more guests were added than {one.guests}, and none had to go"
        for name, one in found.items()
        if one.ended
    ]
    said += [
        f"{name}: {short} of {len(one.cycles)} cycles did not reach their peak of {mib(cycle.peak)} MiB"
        for name, one in found.items()
        if (short := sum(done.peak < cycle.peak for done in one.cycles))
    ]
    said += [
        f"{name}: {one.missed} cycles could not begin in time, as the last one had not ended"
        for name, one in found.items()
        if one.missed
    ]
    return tuple(said)


def _environment(sizes: Sizes, cycle: Cycle) -> dict[str, Any]:
    return {
        **filled_host.environment(sizes),
        "peak_mib": mib(cycle.peak),
        "average_mib": round(cycle.average / MIB),
        "period_s": cycle.period,
        "time": f"1/{HALF_HOUR / cycle.period:g} of the posted test's",
        "size": f"1/{4 * GIB / sizes.guest:g} of its guests",
        "ksm_flat_out": dict(FLAT_OUT.ksm or {}),
        "memhint_without": {name: dict(group) for name, group in WITHOUT.items()},
        "memhint_with": {name: dict(group) for name, group in settings_of(cycle).items()},
    }


def _peak_cpu(one: PeriodResult) -> float:
    return median(done.cpu for done in one.cycles)


def _borne(found: Mapping[str, PeriodResult], budget: int) -> Table:
    columns = (
        Column("guests", "guests", "", 0),
        Column("average", "in use on average", BYTES, 0),
        Column("highest", "at most", BYTES, 0),
        Column("each", "on average for each guest", BYTES),
        Column("own", "of it QEMU's own", BYTES),
        Column("bytes", "guests by bytes", ""),
        Column("alone", "by guests' memory", ""),
        Column("kills", "killed", "", 0),
    )
    arms = [
        Arm(
            name,
            {
                "guests": figure([one.guests]),
                "average": figure([sum(one.used) / len(one.used)]),
                "highest": figure([max(one.used)]),
                "each": figure([sum(one.used) / len(one.used) / one.guests]),
                "own": figure([one.own / one.guests]),
                "bytes": figure([by_bytes(one, budget)]),
                "alone": figure([by_bytes(one, budget, own=False)]),
                "kills": figure([one.kills]),
            },
            _PUBLISHED.get(name, ""),
        )
        for name, one in found.items()
    ]
    return Table("Guests that fit", columns, arms, "The posted test")


def _costs(found: Mapping[str, PeriodResult]) -> Table:
    columns = (
        Column("ksm", "CPU of KSM", "% of a core"),
        Column("agent", "CPU of the agent", "% of a core"),
        Column("recycler", "CPU of the recyclers", "% of a core"),
        Column("cycle", "the guest's processor for one cycle", "s"),
    )

    def share(seconds: float, one: PeriodResult) -> Figure:
        return figure([100 * seconds / one.seconds])

    arms = [
        Arm(
            name,
            {
                "ksm": share(one.ksm_cpu, one),
                "agent": share(one.agent_cpu, one),
                "recycler": share(one.recycler_cpu, one),
                "cycle": figure([done.cpu for done in one.cycles]) if one.cycles else None,
            },
        )
        for name, one in found.items()
    ]
    return Table("What it costs, with as many as fit", columns, arms)


def _used(found: Mapping[str, PeriodResult]) -> tuple[Curve, ...]:
    return tuple(
        Curve(name, tuple((index * one.seconds / len(one.used), used / MIB) for index, used in enumerate(one.used)))
        for name, one in found.items()
    )


BENCH = Bench("recycle", "Recycling", _ABOUT, measure)
