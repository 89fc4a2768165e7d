"""Which VMs may merge with each other.

KSM as it is knows one pool per host, so one project at a time has it. Where it keeps projects apart, all have theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.estimate import DedupEstimate
from memhint.objects.exclusion import Mechanism
from memhint.objects.host import Ksm
from memhint.objects.policy import Mode, Policy
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.dedup_auto import AutoSettings, AutoState, decide, without
from memhint.planner.dedup_breaks import BreakState, rest_of
from memhint.planner.dedup_pace import Pace
from memhint.planner.dedup_partitions import Apart, group_of
from memhint.planner.dedup_pause import stays
from memhint.planner.dedup_yield import TurnInput, TurnState, take_turns
from memhint.planner.exclusions import exclusions, forbidden

_OFF = Verdict(Answer.UNCHANGED, Reason.OPT_OUT)
_UNREAD = Verdict(Answer.PENDING, Reason.NOT_RUNNING, "its process was not read")
_HARMLESS = frozenset({Reason.NOT_RUNNING, Reason.DEVICE})  # why a VM that asked does not merge, and might


@dataclass(frozen=True, slots=True)
class DedupPlan:
    """Who merges. Every other VM that runs must be kept out before KSM runs."""

    members: frozenset[str]
    project: str | None  # that has the one pool; None with nobody in it, allow_cross_tenant, or a pool for each
    verdicts: Mapping[str, Verdict]  # why a VM that asked is not a member
    auto: AutoState = field(default_factory=AutoState, compare=False)  # for the next plan; on by auto are its members
    pace: Pace = field(default=Pace.FAST, compare=False)  # where memhint paces KSM
    # UUIDs of VMs that asked and have the project of a pool, but do not merge now: if they did, it would harm nobody
    spared: frozenset[str] = frozenset()
    turn: TurnState = field(default_factory=TurnState, compare=False)  # for the next plan
    groups: Mapping[str, str] = field(
        default_factory=dict
    )  # with whom each VM may merge, by UUID, for KSM's partitions
    several: bool = False  # VMs of several projects merge


@dataclass(frozen=True, slots=True)
class AutoInput:
    """What decides over VMs on ``auto``."""

    estimated: DedupEstimate | None = None  # None: nothing is estimated on this host
    ksm: Ksm | None = None
    state: AutoState = field(default_factory=AutoState)
    now: float = 0.0  # seconds of any clock that only moves forward
    settings: AutoSettings = field(default_factory=AutoSettings)


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """How merging has gone so far."""

    turn: TurnState = field(default_factory=TurnState)
    breaks: BreakState = field(default_factory=BreakState)
    await_looks: bool = False  # whether VMs that are being looked at are worth waiting for: ranges are found then
    pauses: Mapping[str, float] = field(default_factory=dict)  # by QEMU process that merged: since when it is paused


_NOTHING_KNOWN = AutoInput()
_BEGUN = MergeProgress()
_TOGETHER = Apart()


def project_of(domain: DomainObservation, policy: Policy) -> str | None:
    """Whose VM this is: Nova's word, or else the policy's."""
    return domain.facts.project or policy.project


def plan_dedup(
    domains: Sequence[DomainObservation],
    policies: Mapping[str, Policy],
    current: str | None,
    allow_cross_tenant: bool,
    nodes: int = 1,
    auto: AutoInput = _NOTHING_KNOWN,
    progress: MergeProgress = _BEGUN,
    apart: Apart = _TOGETHER,
) -> DedupPlan:
    """Who may merge, given who asked, and for whom the estimate says that it pays.

    The project that merges now keeps the pool while it has two VMs that ask; otherwise the project with the most
    memory that asks gets it, so that the choice does not flap. Where several may merge at the same time, all do. Those
    VMs come first of which merging saves most, and one whose merged pages break too fast is left alone.

    :param nodes: the host's NUMA nodes that have memory
    :param apart: how far KSM keeps projects apart
    """
    verdicts: dict[str, Verdict] = {}
    asking: dict[str, list[DomainObservation]] = {}
    undecided: dict[str, list[str]] = {}
    for domain in domains:
        policy = policies[domain.uuid]
        runs = domain.state is DomainState.RUNNING or stays(progress.pauses, domain, auto.now)
        refusal = _refusal(domain, policy, allow_cross_tenant, nodes, runs=runs)
        if refusal is not None:
            verdicts[domain.uuid] = refusal
            continue
        project = pool_of(domain, policy, allow_cross_tenant) or ""
        asking.setdefault(project, []).append(domain)
        if policy.dedup is Mode.AUTO:
            undecided.setdefault(project, []).append(domain.uuid)
    stay_out, state = decide(undecided, auto.estimated, auto.ksm, auto.state, auto.now, auto.settings)
    verdicts.update(stay_out)
    asking = {project: [one for one in who if one.uuid not in stay_out] for project, who in asking.items()}
    asking = {project: who for project, who in asking.items() if who}
    one_pool = None if apart.several else _choose(asking, current)
    chosen = frozenset(asking if one_pool is None else [one_pool])
    for project, others in asking.items():
        if project in chosen:
            continue
        # Whose VMs these are may read it: it says of nobody else who he is.
        detail = f"another project has this host's one pool of merged pages; {apart.otherwise}"
        verdicts.update((one.uuid, Verdict(Answer.REFUSED, Reason.TENANT, detail)) for one in others)
    willing = [one for project in asking if project in chosen for one in asking[project]]
    resting = {one.uuid: rest for one in willing if (rest := rest_of(progress.breaks, one, auto.now)) is not None}
    # One missed reading is no end: such a VM is neither taken in, nor are pages separated for it.
    unread = {one.uuid: _UNREAD for one in willing if one.process is None}
    turns = [one for one in willing if one.uuid not in resting and one.uuid not in unread]
    later, turn = _turns(turns, policies, auto, progress)
    later = {**later, **unread}
    verdicts.update({**resting, **later})
    found = frozenset(one.uuid for one in willing)
    harmless = {
        one.uuid
        for one in domains
        if (pool_of(one, policies[one.uuid], allow_cross_tenant) or "") in chosen
        and (one.uuid in stay_out or verdicts.get(one.uuid, _OFF).reason in _HARMLESS)
    }
    kept_out = [uuid for uuid in state.members if uuid not in found]
    members = found - resting.keys() - later.keys()
    groups = {one.uuid: group_of(one.uuid, project_of(one, policies[one.uuid]), allow_cross_tenant) for one in domains}
    return DedupPlan(
        members,
        one_pool or None,
        verdicts,
        without(state, kept_out),
        spared=frozenset({*resting, *later, *harmless}),
        turn=turn,
        groups=groups if apart.partitions else {},
        several=len({groups[uuid] for uuid in members}) > 1,
    )


def _turns(
    asking: Sequence[DomainObservation], policies: Mapping[str, Policy], auto: AutoInput, progress: MergeProgress
) -> tuple[dict[str, Verdict], TurnState]:
    known = auto.estimated
    given = TurnInput(
        {one.uuid: one for one in known.vms} if known is not None else {},
        {one.uuid: policies[one.uuid].dedup for one in asking},
        frozenset(known.waiting) - frozenset(known.failed)
        if known is not None and progress.await_looks
        else frozenset(),
    )
    return take_turns(asking, given, auto.ksm, progress.turn)


def as_before(plan: DedupPlan, policies: Mapping[str, Policy], auto: AutoState, missing: str) -> DedupPlan:
    """The same without a new word on who merges: KSM knows no groups, so that takes all VMs, and whose they are.

    :param missing: what is not known of them, without a VM's name: each VM's project reads it
    """
    held = resting(missing)
    asking = {uuid: held for uuid, policy in policies.items() if policy.dedup is not Mode.OFF}
    return DedupPlan(frozenset(), None, {**plan.verdicts, **asking}, auto)


def resting(missing: str) -> Verdict:
    """Why nothing merges while not all VMs are known."""
    return Verdict(Answer.REFUSED, Reason.NOT_VERIFIED, f"nothing is merged any more while {missing}")


def pool_of(domain: DomainObservation, policy: Policy, allow_cross_tenant: bool) -> str | None:
    """Whose VMs this one could merge with: a project's, or where projects may be crossed everybody's, which is None."""
    return None if allow_cross_tenant else project_of(domain, policy)


def mergeable(domain: DomainObservation) -> bool:
    """Whether KSM could merge pages of this VM as it runs now, whoever asked for it."""
    facts = domain.facts
    fixed = facts.shared_memory or facts.hugepages or facts.no_share_pages or facts.vfio or facts.confidential
    return domain.state is DomainState.RUNNING and domain.process is not None and not fixed


def not_this_vm(domain: DomainObservation, policy: Policy, nodes: int) -> Verdict | None:
    """Why a VM does not merge, whoever asks for it, as long as it runs as it does; None where it may.

    :param nodes: the host's NUMA nodes that have memory
    """
    if domain.facts.shared_memory or domain.facts.hugepages or domain.facts.no_share_pages:
        what = (
            "memory that is shared with another process"
            if domain.facts.shared_memory
            else "huge pages"
            if domain.facts.hugepages
            else "<nosharepages/>"
        )
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, f"KSM cannot merge a VM with {what}")
    excluded = forbidden(exclusions(domain, policy, nodes), Mechanism.MERGE)
    if excluded is not None:
        return Verdict(Answer.UNSUPPORTED, Reason.EXCLUDED, f"a VM like this is not merged: {excluded.detail}")
    return None


def _refusal(
    domain: DomainObservation, policy: Policy, allow_cross_tenant: bool, nodes: int, *, runs: bool
) -> Verdict | None:
    if policy.dedup is Mode.OFF:
        return _OFF
    if not runs:
        return Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {domain.state}")
    unfit = not_this_vm(domain, policy, nodes)
    if unfit is not None:
        return unfit
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
