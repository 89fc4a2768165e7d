"""Which VMs get huge pages again: those whose policy says so, and those that memhint took small pieces from, once they
work again. By QEMU process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.lever import Observed
from memhint.objects.policy import Mode, Policy
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict


@dataclass(frozen=True, slots=True)
class CollapseSettings:
    """How much is collapsed, for how long after something split a VM's huge pages, and what shows that it works."""

    most: int = 1024 * MIB  # bytes of one pass over one VM
    window: float = 600.0  # seconds
    work_cpu: float = 20.0  # percent of one core, from one look to the next
    work_active: float = 25.0  # percent of the resident memory that was touched within the shortest age


_READING_HOLDS = 60.0  # seconds for which a reading of active memory says something of now


def cpu_of(domains: Iterable[DomainObservation]) -> dict[str, float]:
    """Seconds of processor time that each QEMU process has taken, where that was looked at."""
    return {
        one.process.instance: one.process.cpu
        for one in domains
        if one.process is not None and one.process.cpu is not None
    }


def working(
    domains: Iterable[DomainObservation],
    before: Mapping[str, float],
    elapsed: float | None,
    at: float,
    settings: CollapseSettings,
) -> frozenset[str]:
    """The processes whose VMs work, grow or not: by processor time, or by a reading of what they touched.

    QEMU's own threads are in its processor time, and so is what memhint has them do. So this says nothing of a VM from
    which something is taken now.

    :param before: `cpu_of` the last look
    :param elapsed: seconds since then
    :param at: unix seconds of this look
    """
    found = set()
    for one in domains:
        if one.process is None:
            continue
        name, cpu = one.process.instance, one.process.cpu
        took = cpu - before[name] if cpu is not None and name in before else 0.0
        if (elapsed and 100.0 * took >= settings.work_cpu * elapsed) or _touches_much(one, at, settings):
            found.add(name)
    return frozenset(found)


def _touches_much(domain: DomainObservation, at: float, settings: CollapseSettings) -> bool:
    seen = domain.active
    if seen is None or seen.active is None or at - seen.idle[0].at > _READING_HOLDS:
        return False
    return seen.resident > 0 and 100.0 * seen.active >= settings.work_active * seen.resident


def next_split(
    before: Mapping[str, float],
    domains: Iterable[DomainObservation],
    taken: Collection[str],
    idle: frozenset[str],
    elapsed: float | None,
    settings: CollapseSettings,
) -> dict[str, float]:
    """The processes from which something took small pieces, and for how many seconds they have worked since.

    While a VM is idle nothing is owed to it: the time begins when it wakes.

    :param idle: the processes that neither grow nor work
    """
    found = {}
    for one in domains:
        if one.process is None:
            continue
        name = one.process.instance
        if one.uuid in taken or (name in before and name in idle):
            found[name] = 0.0
        elif name in before and before[name] + (elapsed or 0.0) <= settings.window:
            found[name] = before[name] + (elapsed or 0.0)
    return found


def collapses(
    domains: Iterable[DomainObservation],
    policies: Mapping[str, Policy],
    split: Mapping[str, float],
    taken: Collection[str],
    idle: frozenset[str],
    settings: CollapseSettings,
    *,
    calm: bool,
) -> dict[str, int]:
    """Bytes of huge pages to make, by VM. A VM gets some if nothing takes pieces of it now. A VM that works also gets
    some while the pieces that are taken are only such as are free in it.

    With ``auto`` a VM has to work: an idle one gains nothing. A VM that was started to have small pages only gets none.

    :param taken: UUIDs of the VMs that are left alone, for what is taken of them
    :param idle: the processes that neither grow nor work
    :param calm: whether no rung is entered; else the host needs what a collapse would fill
    """
    if not calm:
        return {}
    return {
        one.uuid: settings.most
        for one in domains
        if one.state is DomainState.RUNNING
        and one.process is not None
        and not one.process.small_pages
        and one.uuid not in taken
        and (
            policies[one.uuid].thp is Mode.ON
            or (
                policies[one.uuid].thp is Mode.AUTO
                and one.process.instance in split
                and one.process.instance not in idle
            )
        )
    }


def huge_seen(domain: DomainObservation) -> Observed:
    """Whether huge pages back some of a VM."""
    if domain.deep is None:
        return Observed.UNKNOWN if small_pages(domain) is None else Observed.OFF
    return Observed.ON if domain.deep.anon_huge else Observed.OFF


def not_this_vm(domain: DomainObservation) -> Verdict | None:
    """Why nothing of a VM is collapsed as it runs now, whatever its host has; None where that may be."""
    if domain.state is not DomainState.RUNNING or domain.process is None:
        return Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {domain.state}")
    facts = domain.facts
    if facts.hugepages:
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "its memory is on explicit huge pages already")
    if facts.locked or facts.vfio or facts.confidential:
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "its memory cannot be moved: locked, pinned or encrypted")
    if facts.shared_memory or facts.file_backed:
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "its memory is of a file, which has huge pages of its own")
    if facts.realtime:
        return Verdict(Answer.REFUSED, Reason.EXCLUDED, "a collapse makes its CPUs wait: they are real time")
    if domain.process.ksm_merging:
        held = f"{domain.process.ksm_merging // MIB} MiB of it are merged, and a collapse would separate them"
        return Verdict(Answer.REFUSED, Reason.IN_USE, held)
    return None


def small_pages(domain: DomainObservation) -> Verdict | None:
    """Why nothing will ever be collapsed of a process that has to do without; None where it has not."""
    if domain.process is None or not domain.process.small_pages:
        return None
    detail = "its QEMU was started to have small pages only (PR_SET_THP_DISABLE), until the VM is started otherwise"
    return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, detail)
