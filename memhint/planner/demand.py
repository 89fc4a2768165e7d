"""What each VM may fault in again: D, from A and U and from what was seen before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.plan import Demand, DemandReason
from memhint.planner.settings import PlannerSettings


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of one VM's process. Bytes and seconds of the planner's clock."""

    instance: str  # the QEMU process: another process is another VM to the forecast
    first_seen: float
    peak: float  # the decaying peak of the footprint
    at: float
    highest: int  # the footprint's peak, not decaying


def exclusion(domain: DomainObservation) -> str | None:
    """Why nothing of this VM's memory can be counted on to come back; None where it can.

    A device that the host passes through and encrypted memory both pin every page for the VM's life.
    """
    facts = domain.facts
    if facts.locked:
        return "its memory is locked"
    if facts.vfio:
        return "a passed-through device pins its memory"
    if facts.confidential:
        return "its memory is encrypted"
    return None


def remember(
    past: Mapping[str, Past], domains: Iterable[DomainObservation], now: float, half_life: float
) -> dict[str, Past]:
    """The past of every VM that is still there and was observed, moved to ``now``.

    The peak decays towards the present footprint by half in each ``half_life`` seconds, and jumps with it at once.
    """
    moved: dict[str, Past] = {}
    for domain in domains:
        before = past.get(domain.uuid)
        process = domain.process
        if process is None:
            if before is not None:
                moved[domain.uuid] = before  # one missed reading is no new life
            continue
        use = process.footprint
        if before is None or before.instance != process.instance:
            moved[domain.uuid] = Past(process.instance, now, use, now, use)
            continue
        fade = 0.5 ** (max(0.0, now - before.at) / half_life)
        peak = max(float(use), use + (before.peak - use) * fade)
        moved[domain.uuid] = Past(before.instance, before.first_seen, peak, now, max(before.highest, use))
    return moved


def demand_of(domain: DomainObservation, past: Past | None, now: float, settings: PlannerSettings) -> Demand:
    """One VM's A, U and D in bytes.

    D is A for whatever may claim all of it without being seen to: stopped, paused, incoming, pinned, not observed. A
    new VM's D decays linearly from A to the forecast over ``new_vm_decay`` seconds.
    """
    use = domain.footprint or 0
    assigned = max(domain.facts.memory + settings.overhead, use)
    if domain.facts.hugepages:
        return Demand(domain.uuid, assigned, use, 0, DemandReason.OUTSIDE, "backed by explicit huge pages")
    if domain.state is not DomainState.RUNNING:
        return Demand(domain.uuid, assigned, use, assigned, DemandReason.STOPPED, f"is {domain.state}")
    why = exclusion(domain)
    if why is not None:
        return Demand(domain.uuid, assigned, use, assigned, DemandReason.EXCLUDED, why)
    if domain.process is None or past is None or past.instance != domain.process.instance:
        return Demand(domain.uuid, assigned, use, assigned, DemandReason.UNOBSERVED, "its process was not read")
    forecast = min(max(int(past.peak), use), assigned)
    age = now - past.first_seen
    if age < settings.new_vm_decay:
        left = 1.0 - max(0.0, age) / settings.new_vm_decay
        demand = min(assigned, forecast + int((assigned - forecast) * left) + 1)
        return Demand(domain.uuid, assigned, use, demand, DemandReason.NEW, f"seen for {age:.0f} s")
    return Demand(domain.uuid, assigned, use, forecast, DemandReason.FORECAST, "decaying peak of its footprint")
