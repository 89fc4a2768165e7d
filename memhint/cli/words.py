"""Words for what records say in numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from memhint.objects.counted import counted
from memhint.objects.discarded import Agreement, ReportingCheck
from memhint.objects.gap import Gap
from memhint.objects.ladder import EnteredRung
from memhint.objects.plan import Bound, Capacity, Demand, PressureVerdict
from memhint.objects.policy import KEYS, PolicySetting
from memhint.objects.reclaim import Hold
from memhint.objects.units import mib

BOUNDS = {
    Bound.MODEL: "what the forecast of all VMs leaves",
    Bound.NOW: "what is really free now",
    Bound.BACK: "what could be backed if every VM claimed all of its memory",
    Bound.NODE: "what the tightest NUMA node leaves that VMs are bound to",
    Bound.RATIO: "the maximum ratio of this host or of an aggregate",
    Bound.RATE: "capacity rises slowly",
    Bound.PRESSURE: "the host is under pressure",
    Bound.STALE: "the observation is too old",
}


def headroom(capacity: Capacity) -> str:
    """The headroom, and the rule that bounds it."""
    meaning = BOUNDS.get(capacity.bound, "a rule of a newer memhint")
    if capacity.blind and capacity.bound is Bound.STALE:
        meaning = "not all VMs of this host are known"
    return f"{mib(capacity.headroom)} MiB, bounded by {capacity.bound}: {meaning}"


def nominal(capacity: Capacity) -> int | None:
    """The headroom by assigned memory alone, in bytes; None where what VMs were given is not known."""
    return None if capacity.blind else capacity.nominal_headroom()


def why(demand: Demand) -> str:
    """Why a VM may come to need what it may come to need."""
    return f"{demand.reason}: {demand.detail}" if demand.detail else str(demand.reason)


def ladder(rungs: Sequence[EnteredRung]) -> str:
    """The rungs that are entered, lowest first, and for how long."""
    if not rungs:
        return "no rung entered"
    return ", ".join(f"{one.rung} for {one.age:.0f} s" for one in rungs)


def admitting(pressure: PressureVerdict) -> str:
    """Whether the host admits, or why not."""
    return "yes" if pressure.admitting else f"no: {pressure.detail}"


def absent(gaps: Iterable[Gap], what: str) -> str:
    """Why a value is absent; a dash where no gap says."""
    for gap in gaps:
        if gap.what == what:
            return str(gap.reason)
    return "-"


def lever_line(observed: str, desired: str, verdict: object) -> str:
    """What is seen of a lever, what is wished, and why they differ."""
    return f"{observed}, wish {desired}: {verdict}"


def hold_line(seconds: float, held: Hold | None) -> str:
    """What was taken again after a reclaim that was to be held for so many seconds."""
    if held is None:
        return f"{seconds:g} s, not begun" if seconds else "-"
    again = f"{size(held.again)} reclaimed again in {counted(held.rounds, 'go', 'goes')}"
    if held.stop is not None:
        return f"ended ({held.stop}), {again}"
    return f"until {moment(held.until)} UTC, {again}"


def policy_value(name: str, setting: PolicySetting) -> str:
    """One value of a policy with its unit and its origin."""
    return setting_text(name, setting.value, setting.origin)


def setting_text(name: str, value: str, origin: str) -> str:
    """The same of its parts."""
    key = KEYS.get(name)
    return f"{key.kind.shown(value) if key else value} ({origin})"


CLAIMS = {
    Agreement.PENDING: "not compared yet",
    Agreement.AGREES: "no more than the host discarded",
    Agreement.OVERCLAIMS: "more than the host discarded, so its word is not used",
}


def claim(check: ReportingCheck) -> str:
    """What a guest claims to have reported, against what the host discarded and saw come back."""
    text = f"{check.agreement}: {CLAIMS[check.agreement]}"
    if check.at is None:
        return text
    seen = "" if check.observed is None else f", resident moved by {mib(-check.observed)} MiB"
    return f"{text}; {mib(check.claimed)} MiB claimed, {mib(check.discarded)} MiB discarded{seen}"


def size(value: int | None) -> str:
    """Bytes with their unit, within a text."""
    return "-" if value is None else f"{mib(value)} MiB"


def number(value: int | None) -> str:
    """A count."""
    return "unknown" if value is None else str(value)


def part(value: float | None) -> str:
    """A part of 1, in percent."""
    return "-" if value is None else f"{100 * value:.0f} %"


def moment(value: object) -> str:
    """Unix seconds as UTC; a dash for what is no moment of the calendar, as a host may have said anything."""
    if not isinstance(value, (int, float)):
        return "-"
    try:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "-"


def seconds(value: float | None) -> str:
    """An age for a person."""
    return "-" if value is None else f"{value:.0f} s"


def gap_lines(gaps: Iterable[object]) -> str:
    """Gaps, one in each line."""
    return "\n".join(str(gap) for gap in gaps) or "none"


def host_gap_lines(gaps: Iterable[object], vms: int, where: str = "") -> str:
    """The gaps of a host, and of how many of its VMs something is missing; ``where`` that is listed."""
    lines = [str(gap) for gap in gaps]
    if vms:
        lines.append(f"{'and ' if lines else ''}{vms} of its VMs: memhint domains --long{where}")
    return "\n".join(lines) or "none"
