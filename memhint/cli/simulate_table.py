"""What `memhint simulate` prints: a row for each policy, or of several seeds one with means and one with the worst."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from memhint.objects.counted import counted

if TYPE_CHECKING:
    from memhint.sim.engine import SimulationResult
    from memhint.sim.fleet import Fleet

Worst = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one policy with one seed; ``first`` is the first policy's."""

    outcome: SimulationResult
    gain: float | None
    oracle_share: float | None
    first: SimulationResult


@dataclass(frozen=True, slots=True)
class Found:
    """What one seed showed, and in how many seconds."""

    seed: int
    fleet: Fleet
    results: Sequence[Result]
    seconds: float


def _count(value: float) -> str:
    """Of things, which have a fraction in a mean only."""
    return f"{value:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Column:
    """One figure: how it is read and written, and which of several is the worst."""

    title: str
    read: Callable[[Result], float | None]
    write: Callable[[float], str] = "{:.0f}".format
    worst: Worst = max


_HOSTS = Column("Hosts", lambda one: one.outcome.hosts, _count)
_RATIO = Column("Ratio", lambda one: one.outcome.ratio_mean, "{:.2f}".format, min)
_QUALITY = (
    Column("Placed %", lambda one: 100 * one.outcome.placed_share, "{:.1f}".format, min),
    Column("Of oracle %", lambda one: _percent(one.oracle_share), worst=min),
    Column("Violations %", lambda one: 100 * one.outcome.violation_share, "{:.3f}".format),
    Column("Worst host %", lambda one: 100 * one.outcome.worst_host_share, "{:.2f}".format),
    Column("Worst %", lambda one: 100 * one.outcome.worst, "{:.1f}".format),
    Column("VM minutes", lambda one: one.outcome.vm_violation_minutes),
    Column("Swapped GiB h", lambda one: one.outcome.swapped_gib_hours, "{:.1f}".format),
    Column("In storms %", lambda one: _percent(one.outcome.storm_violation_share)),
    Column("OOMs", lambda one: one.outcome.oom_events, _count),
    Column("Killed", lambda one: one.outcome.killed, _count),
    Column("Moves/host/day", lambda one: one.outcome.ratio_moves_per_host_day, "{:.1f}".format),
)
_CLASS = (
    Column("Guaranteed minutes", lambda one: one.outcome.guaranteed_minutes),
    Column("Guaranteed killed", lambda one: one.outcome.guaranteed_killed, _count),
)
_COUNTS = (
    Column("VMs", lambda one: one.outcome.placed_mean, worst=min),
    Column("Peak", lambda one: one.outcome.placed_peak, _count, min),
    Column("VMs x", lambda one: _parts(one.outcome.placed_mean, one.first.placed_mean), "{:.2f}".format, min),
)

Columns = tuple[Sequence[Column], Sequence[Column]]  # before and after what a policy is bound by


def titles(needed: bool, with_class: bool = False) -> tuple[str, ...]:
    """The table's head.

    :param with_class: whether some VMs are guaranteed
    """
    before, after = _columns(needed, with_class)
    return ("Policy", *(one.title for one in before), "Bound by", *(one.title for one in after))


def rows(results: Sequence[Sequence[Result]], needed: bool, with_class: bool = False) -> list[tuple[str, ...]]:
    """The table's body.

    :param results: of each seed those of each policy, in the same order
    """
    found, columns = [], _columns(needed, with_class)
    for seeds in zip(*results, strict=True):
        name = seeds[0].outcome.policy
        if len(seeds) == 1:
            found.append(_row(name, seeds, columns, fmean))
        else:
            found.append(_row(f"{name}, mean", seeds, columns, fmean))
            found.append(_row(f"{name}, worst", seeds, columns, None))
    return found


def _columns(needed: bool, with_class: bool) -> Columns:
    first = _HOSTS if needed else _RATIO
    gain = Column(f"{first.title} x", lambda one: one.gain, "{:.2f}".format, min)
    return (first, gain, *_QUALITY, *(_CLASS if with_class else ())), _COUNTS


def _row(name: str, seeds: Sequence[Result], columns: Columns, many: Worst | None) -> tuple[str, ...]:
    def cell(one: Column) -> str:
        values = [one.read(seed) for seed in seeds]
        known = [value for value in values if value is not None]
        # One that has no figure is worse than any that has one.
        if len(known) < len(values):
            return "-"
        return one.write((many or one.worst)(known))

    before, after = columns
    return (name, *map(cell, before), _bound(seeds) if many else "", *map(cell, after))


def _bound(seeds: Sequence[Result]) -> str:
    shares = {name: fmean(one.outcome.bounds.get(name, 0.0) for one in seeds) for name in seeds[0].outcome.bounds}
    most = max(shares, key=lambda name: shares[name], default=None)
    return "-" if most is None else f"{most} {100 * shares[most]:.0f} %"


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _parts(value: float, whole: float) -> float | None:
    return value / whole if whole else None


_FIELDS = (
    "policy",
    "asked",
    "admitted",
    "departed",
    "killed",
    "placed_share",
    "placed_mean",
    "placed_peak",
    "assigned_mean",
    "ratio_mean",
    "violation_minutes",
    "violation_share",
    "worst_host_share",
    "vm_violation_minutes",
    "guaranteed_minutes",
    "guaranteed_killed",
    "swapped_gib_hours",
    "storm_violation_share",
    "worst",
    "oom_events",
    "ratio_moves",
    "ratio_moves_per_host_day",
    "bounds",
)
MACHINE = (*_FIELDS, "gain", "oracle_share", "fleet", "hosts", "steps", "step", "seconds", "seed")


def machine_row(found: Found, one: Result) -> tuple[Any, ...]:
    """What programs get of one policy, under the titles `MACHINE`: bytes and shares."""
    fleet, outcome = found.fleet, one.outcome
    run = (one.gain, one.oracle_share, fleet.name, outcome.hosts, fleet.steps, fleet.step)
    return (*(getattr(outcome, name) for name in _FIELDS), *run, round(found.seconds, 1), found.seed)


def heading(found: Sequence[Found], *, needed: bool) -> str:
    """What stands above the table."""
    fleet = found[0].fleet
    least, most = (choose(one.fleet.vms for one in found) for choose in (min, max))
    vms = counted(least, "VM asks", "VMs ask") if least == most else f"{least} to {most} VMs ask"
    hosts = "as many hosts as it takes" if needed else counted(fleet.hosts, "host")
    seeds = "" if len(found) == 1 else f"seeds {found[0].seed} to {found[-1].seed}, "
    seconds = sum(one.seconds for one in found)
    return f"{fleet.name}: {seeds}{vms}, {hosts}, {counted(fleet.steps, 'step')} of {fleet.step:g} s; {seconds:.0f} s"
