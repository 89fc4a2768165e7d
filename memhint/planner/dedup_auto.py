"""``dedup=auto``: on where the estimate pays, off where it does not or where KSM itself says that it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from memhint.objects.estimate import DedupEstimate, GroupEstimate
from memhint.objects.host import Ksm
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict

_HELD = Verdict(
    Answer.UNCHANGED,
    Reason.DOES_NOT_PAY,
    "KSM's general_profit was negative: it took more memory than it saved. After [dedup] auto_hold it may begin again",
)
_DOUBT = 86_400.0  # seconds after which nothing new is waited for: a VM may never be looked at again
_SETTLED = 3  # full scans: the first fills checksums, the second merges, the third has all of it behind it


@dataclass(frozen=True, slots=True)
class AutoSettings:
    """When merging pays. Percent of the memory of the VMs that ask; bytes; seconds."""

    enter_percent: float = 10.0
    exit_percent: float = 5.0
    least: int = 256 * MIB
    hold: float = 3600.0  # for which nothing is tried again after KSM's general_profit was negative


def pressed(settings: AutoSettings) -> AutoSettings:
    """The same on a host under pressure: whatever is sure to save more than KSM takes pays."""
    return replace(settings, enter_percent=0.0, exit_percent=0.0, least=1)


@dataclass(frozen=True, slots=True)
class Doubt:
    """What merges has ceased to pay, by samples of different ages.

    Two VMs that both took in the same are looked at one after the other, and what one has seems to be its own until
    then: merging ends when all samples are as new.
    """

    newest: float  # unix seconds of the newest sample at first
    since: float  # of the planner's clock


@dataclass(frozen=True, slots=True)
class AutoState:
    """What one cycle hands to the next."""

    members: tuple[str, ...] = ()  # UUIDs of the VMs that auto has switched on
    scans: int | None = None  # KSM's full_scans when it was seen running for them first
    held: Mapping[str, float] = field(default_factory=dict)  # project → when it may be tried again
    doubted: Mapping[str, Doubt] = field(default_factory=dict)  # by project


def pays(group: GroupEstimate, settings: AutoSettings, *, now_on: bool) -> bool:
    """Whether it is worth it: to switch on, what is sure must suffice; to stay on, what is likely."""
    if now_on:
        return group.profit >= settings.exit_percent / 100 * group.looked and group.profit > 0
    return group.sure >= max(settings.least, settings.enter_percent / 100 * group.looked)


def in_words(group: GroupEstimate, settings: AutoSettings, *, now_on: bool) -> str:
    """The estimate held against what is demanded; in whole percents, so that it does not change all the time."""
    gain, doubt = (100 * part / max(1, group.looked) for part in (group.profit, group.error))
    wanted = (
        f"{settings.exit_percent:g} % are wanted to go on"
        if now_on
        else f"{settings.enter_percent:g} % and {mib(settings.least)} MiB must be sure to begin"
    )
    return f"merging saves {gain:.0f} % (± {doubt:.0f} %) of the memory of the VMs that ask, KSM's own paid; {wanted}"


def decide(
    asking: Mapping[str, Iterable[str]],
    estimated: DedupEstimate | None,
    ksm: Ksm | None,
    state: AutoState,
    now: float,
    settings: AutoSettings,
) -> tuple[dict[str, Verdict], AutoState]:
    """Which VMs on auto are to merge.

    :param asking: UUIDs of the VMs on auto that could merge, by project
    :param estimated: None where nothing is estimated
    :return: a verdict for each VM that stays out, and the state with those that are in
    """
    scans = None
    if state.members and ksm is not None and ksm.run == 0:
        scans = state.scans  # it rests for a moment, as where a VM starts, and counts on
    elif state.members and ksm is not None and ksm.run == 1:
        scans = state.scans if state.scans is not None and state.scans <= ksm.full_scans else ksm.full_scans
    held = {project: until for project, until in state.held.items() if until > now}
    before = frozenset(state.members)
    lossy = (
        ksm is not None
        and scans is not None
        and ksm.full_scans >= scans + _SETTLED
        and ksm.general_profit is not None
        and ksm.general_profit < 0
    )
    verdicts: dict[str, Verdict] = {}
    members: list[str] = []
    doubted: dict[str, Doubt] = {}
    for project, uuids in asking.items():
        uuids = list(uuids)
        was_on = not before.isdisjoint(uuids)
        if lossy and was_on:
            held[project] = now + settings.hold
        if project in held:
            verdicts.update(dict.fromkeys(uuids, _HELD))
            continue
        group = estimated.asking_of(project or None) if estimated is not None else None
        known = frozenset(group.members) if group is not None else frozenset()
        if group is not None and not pays(group, settings, now_on=was_on):
            # What merging saves lies between VMs: without all of those that merge, or could, too little of it is seen.
            sure = known.issuperset(before.intersection(uuids) if was_on else uuids)
            if was_on and estimated is not None:
                newest = _newest(group, estimated)
                first = state.doubted.get(project, Doubt(newest, now))
                # A clock that was set back must not make it wait for the time that it showed before.
                doubt = doubted[project] = Doubt(min(first.newest, newest), first.since)
                sure = (sure and group.at >= doubt.newest) or now - doubt.since >= _DOUBT
            if sure:
                doubted.pop(project, None)
                verdict = Verdict(Answer.UNCHANGED, Reason.DOES_NOT_PAY, in_words(group, settings, now_on=was_on))
                verdicts.update(dict.fromkeys(uuids, verdict))
                continue
            known = frozenset()
        for uuid in uuids:
            # One that was on stays on until all is known, as after a restart: separating pages has its price.
            if uuid in known or uuid in before:
                members.append(uuid)
            else:
                verdicts[uuid] = _unknown(estimated)
    return verdicts, AutoState(tuple(members), scans if members else None, held, doubted)


def without(state: AutoState, kept_out: Iterable[str]) -> AutoState:
    """The state when some of its members cannot merge for another reason."""
    out = frozenset(kept_out)
    return replace(state, members=tuple(uuid for uuid in state.members if uuid not in out))


def _newest(group: GroupEstimate, estimated: DedupEstimate) -> float:
    """Unix seconds of the newest sample behind a group's estimate."""
    return max((one.at for one in estimated.vms if one.uuid in group.members), default=group.at)


def _unknown(estimated: DedupEstimate | None) -> Verdict:
    if estimated is None:
        return Verdict(
            Answer.UNCHANGED,
            Reason.NO_ESTIMATE,
            "auto stays off: nothing is estimated, see [dedup] estimate_cpu_percent",
        )
    return Verdict(
        Answer.PENDING,
        Reason.NO_ESTIMATE,
        "its memory, or that of VMs it could merge with, is still being looked at: see memhint dedup estimate",
    )
