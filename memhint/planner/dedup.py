"""Which VMs may merge with each other. KSM knows one pool per host, so one project at a time has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.exclusion import Way
from memhint.objects.policy import Mode, Policy
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.exclusions import exclusions, forbidden

_OFF = Verdict(Answer.UNCHANGED, Reason.OPT_OUT)
_AUTO = Verdict(Answer.UNCHANGED, Reason.NO_ESTIMATE, "auto stays off until an estimate says that it pays")


@dataclass(frozen=True, slots=True)
class DedupPlan:
    """Who merges. Every other VM that runs must be kept out before KSM runs."""

    members: frozenset[str]
    project: str | None  # the one that has the pool; None with nobody in it, or with allow_cross_tenant
    verdicts: Mapping[str, Verdict]  # why a VM that asked is not a member


def project_of(domain: DomainObservation, policy: Policy) -> str | None:
    """Whose VM this is: Nova's word, or else the policy's."""
    return domain.facts.project or policy.project


def plan_dedup(
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    current: str | None,
    allow_cross_tenant: bool,
    nodes: int = 1,
) -> DedupPlan:
    """Who may merge, given who asked.

    The project that merges now keeps the pool while it has two VMs that ask; otherwise the project with the most
    memory that asks gets it, so that the choice does not flap.

    :param nodes: the host's NUMA nodes that have memory
    """
    verdicts: dict[str, Verdict] = {}
    asking: dict[str, list[DomainObservation]] = {}
    for domain in domains:
        policy = policies[domain.uuid]
        refusal = _refusal(domain, policy, allow_cross_tenant, nodes)
        if refusal is not None:
            verdicts[domain.uuid] = refusal
            continue
        asking.setdefault("" if allow_cross_tenant else project_of(domain, policy) or "", []).append(domain)
    chosen = _choose(asking, current)
    for project, others in asking.items():
        if project == chosen:
            continue
        detail = f"project {chosen} has this host's one pool of merged pages; allow_cross_tenant would share it"
        verdicts.update((one.uuid, Verdict(Answer.REFUSED, Reason.TENANT, detail)) for one in others)
    members = asking[chosen] if chosen is not None else []
    return DedupPlan(frozenset(one.uuid for one in members), chosen or None, verdicts)


def _refusal(domain: DomainObservation, policy: Policy, allow_cross_tenant: bool, nodes: int) -> Verdict | None:
    wish = policy.dedup
    if wish is Mode.OFF:
        return _OFF
    if wish is Mode.AUTO:
        return _AUTO
    if domain.state is not DomainState.RUNNING:
        return Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {domain.state}")
    if domain.facts.shared_memory or domain.facts.hugepages or domain.facts.no_share_pages:
        what = (
            "memory that is shared with another process"
            if domain.facts.shared_memory
            else "huge pages"
            if domain.facts.hugepages
            else "<nosharepages/>"
        )
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, f"KSM cannot merge a VM with {what}")
    excluded = forbidden(exclusions(domain, policy, nodes), Way.MERGE)
    if excluded is not None:
        return Verdict(Answer.UNSUPPORTED, Reason.EXCLUDED, f"a VM like this is not merged: {excluded.detail}")
    if project_of(domain, policy) is None and not allow_cross_tenant:
        return Verdict(
            Answer.REFUSED,
            Reason.NO_PROJECT,
            "say whose it is with `memhint set DOMAIN project=NAME`: KSM is a side channel",
        )
    return None


def _choose(asking: Mapping[str, Sequence[DomainObservation]], current: str | None) -> str | None:
    if not asking:
        return None
    if current is not None and len(asking.get(current, ())) >= 2:
        return current
    # The name breaks ties, so that two equal projects do not take turns.
    return min(asking, key=lambda project: (-sum(one.facts.memory for one in asking[project]), project))
