"""What each VM may fault in again: D, from A and U, from what was seen before, and from its policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.exclusion import Exclusion
from memhint.objects.plan import Demand, DemandReason, PredictorName
from memhint.objects.policy import Policy
from memhint.planner.exclusions import exclusions
from memhint.planner.past import Past
from memhint.planner.predictors import Member, Predictor
from memhint.planner.settings import PlannerSettings

_BY: Mapping[PredictorName, str] = {
    PredictorName.DECAYING_PEAK: "decaying peak of its footprint",
    PredictorName.QUANTILE: "quantile of its footprint",
    PredictorName.N_SIGMA: "its share of the host's N-sigma",
}
_BELOW_MINIMUM = "its forecast is below its minimum"


def remember(
    past: Mapping[str, Past], domains: Iterable[DomainObservation], now: float, predictor: Predictor
) -> dict[str, Past]:
    """The past of every VM that is still there, moved to ``now`` where it was observed."""
    moved: dict[str, Past] = {}
    for domain in domains:
        before = past.get(domain.uuid)
        process = domain.process
        if process is None:
            if before is not None:
                moved[domain.uuid] = before  # one missed reading is no new life
        elif before is None or before.instance != process.instance:
            moved[domain.uuid] = predictor.first(process.instance, process.footprint, now)
        else:
            moved[domain.uuid] = predictor.next(before, process.footprint, now)
    return moved


def decay(forecast: int, assigned: int, age: float, seconds: float) -> int:
    """A new VM's D: falls linearly from A to the forecast within ``seconds``, never below the line."""
    left = 1.0 - max(0.0, age) / seconds
    return min(assigned, forecast + int((assigned - forecast) * left) + 1)


def demands_of(
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    past: Mapping[str, Past],
    now: float,
    settings: PlannerSettings,
    predictor: Predictor,
    nodes: int = 1,
) -> tuple[Demand, ...]:
    """Every VM's A, U and D in bytes, in the order of ``domains``.

    D is A for whatever may claim all of it without being seen to: stopped, paused, incoming, excluded, guaranteed, not
    observed. Otherwise it is the forecast, not below the VM's minimum; a new VM's decays from A to that.

    :param nodes: the host's NUMA nodes that have memory
    """
    found: list[Demand | None] = []
    waiting: list[tuple[int, Demand]] = []  # place, and the demand but for its forecast
    members: list[Member] = []
    for domain in domains:
        policy, seen = policies[domain.uuid], past.get(domain.uuid)
        base = _in_full(domain, policy, seen, settings, nodes)
        if base.reason is not DemandReason.FORECAST or seen is None:
            found.append(base)
            continue
        waiting.append((len(found), base))
        members.append(Member(base.footprint, base.assigned, seen))
        found.append(None)
    forecasts = predictor.forecast(members)
    for (place, base), member, forecast in zip(waiting, members, forecasts, strict=True):
        found[place] = _by_forecast(base, forecast, now - member.past.first_seen, settings)
    return tuple(one for one in found if one is not None)


def _in_full(
    domain: DomainObservation, policy: Policy, past: Past | None, settings: PlannerSettings, nodes: int
) -> Demand:
    """The demand at A with its reason; FORECAST where only a forecast is missing."""
    use = domain.footprint or 0
    assigned = max(domain.facts.memory + settings.overhead, use)
    excluded = exclusions(domain, policy, nodes)
    minimum = min(assigned, policy.minimum + settings.overhead) if policy.minimum else 0
    reason, detail, demand = DemandReason.FORECAST, "", assigned
    if excluded and excluded[0].reason is Exclusion.HUGEPAGES:
        reason, detail, demand = DemandReason.OUTSIDE, excluded[0].detail, 0
    elif domain.state is not DomainState.RUNNING:
        reason, detail = DemandReason.STOPPED, f"is {domain.state}"
    elif excluded:
        guaranteed = excluded[0].reason is Exclusion.GUARANTEED
        reason = DemandReason.GUARANTEED if guaranteed else DemandReason.EXCLUDED
        detail = "; ".join(one.detail for one in excluded)
    elif domain.process is None or past is None or past.instance != domain.process.instance:
        reason, detail = DemandReason.UNOBSERVED, "its process was not read"
    return Demand(
        domain.uuid,
        assigned,
        use,
        demand,
        reason,
        detail,
        minimum=minimum,
        group=policy.group,
        qos=policy.qos,
        excluded=excluded,
    )


def _by_forecast(base: Demand, forecast: int, age: float, settings: PlannerSettings) -> Demand:
    floor = max(forecast, base.minimum)
    demand, reason, detail = floor, DemandReason.FORECAST, _BY[settings.predictor]
    if floor > forecast:
        reason, detail = DemandReason.MINIMUM, _BELOW_MINIMUM
    if age < settings.new_vm_decay:
        demand = decay(floor, base.assigned, age, settings.new_vm_decay)
        reason, detail = DemandReason.NEW, f"seen for {age:.0f} s"
    return Demand(
        base.uuid,
        base.assigned,
        base.footprint,
        demand,
        reason,
        detail,
        forecast=forecast,
        minimum=base.minimum,
        group=base.group,
        qos=base.qos,
    )
