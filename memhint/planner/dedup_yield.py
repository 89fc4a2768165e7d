"""In which order VMs begin to merge: those of which merging saves most come first.

KSM has one thread, which goes over all that may merge, again and again: what saves little keeps it from what saves
much. So VMs enter in turns. Those whose part to be saved is at least half of the best one's make up a turn; the next
begins when KSM has been over all of the turn before often enough to have merged it. VMs that are alike enter together.

Nobody leaves for another's turn: to take a VM out separates what was merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memhint.objects.domain import DomainObservation
from memhint.objects.estimate import VmEstimate
from memhint.objects.host import Ksm
from memhint.objects.policy import Mode
from memhint.objects.verdict import Answer, Reason, Verdict

_ALIKE = 0.5  # of the best VM's part to be saved: who has as much comes with it
_SETTLED = 3  # full scans: the first fills checksums, the second merges, the third has all of it behind it
_METADATA = 64 / 4096  # of what is scanned, KSM's own memory: see dedup_estimate.RMAP_ITEM


@dataclass(frozen=True, slots=True)
class TurnState:
    """What one cycle hands to the next."""

    entered: tuple[str, ...] = ()  # QEMU processes
    least: float = 0.0  # the smallest part to be saved that has entered
    until: int | None = None  # KSM's full_scans at which the turn ends


@dataclass(frozen=True, slots=True)
class TurnInput:
    """Who asks, by what."""

    estimates: Mapping[str, VmEstimate]  # by UUID
    auto: Mapping[str, Mode] = field(default_factory=dict)  # what each VM's policy says, by UUID
    waiting: frozenset[str] = frozenset()  # UUIDs of VMs that are worth waiting for: they are being looked at


def take_turns(
    asking: Sequence[DomainObservation], given: TurnInput, ksm: Ksm | None, state: TurnState
) -> tuple[dict[str, Verdict], TurnState]:
    """Who is not in yet, and why; and the state with those that are.

    A VM of which nothing is estimated comes with the first. One that merges already stays, whatever is known of it.
    """
    verdicts: dict[str, Verdict] = {}
    inside, outside = [], []
    before = frozenset(state.entered)
    for one in asking:
        assert one.process is not None  # only VMs that run ask
        found = given.estimates.get(one.uuid)
        part = None if found is None else found.saving / max(1, found.looked)
        if one.process.instance in before or one.process.ksm_merging or one.process.ksm_zero:
            inside.append(one)
        elif part is None and one.uuid in given.waiting:
            verdicts[one.uuid] = _LOOKED_AT
        elif part is not None and part <= _METADATA and given.auto.get(one.uuid) is Mode.AUTO:
            verdicts[one.uuid] = _little(part)
        else:
            outside.append((1.0 if part is None else part, one))
    if not outside:
        kept = tuple(one.process.instance for one in inside if one.process is not None)
        return verdicts, TurnState(kept, state.least, state.until)
    outside.sort(key=lambda each: (-each[0], each[1].uuid))
    full_scans = ksm.full_scans if ksm is not None else 0
    until, least = state.until, state.least
    if until is not None and until > full_scans + _SETTLED:
        until = full_scans + _SETTLED  # the counter began again
    if not inside or until is None or full_scans >= until:
        best = outside[0][0]
        # With one VM alone it would be waited for pages that have their equal in the next.
        second = outside[min(1, len(outside) - 1)][0] if not inside else best
        least, until = min(_ALIKE * best, second), full_scans + _SETTLED
    for part, one in outside:
        if part >= least:
            inside.append(one)
        else:
            verdicts[one.uuid] = _later(part, least)
    entered = tuple(one.process.instance for one in inside if one.process is not None)
    return verdicts, TurnState(entered, least, until)


_LOOKED_AT = Verdict(
    Answer.PENDING, Reason.NO_ESTIMATE, "its memory is being looked at, so that only what has an equal is scanned"
)


def _little(part: float) -> Verdict:
    detail = f"merging would save {100 * part:.1f} % of this VM, and KSM's own memory takes {100 * _METADATA:.1f} %"
    return Verdict(Answer.UNCHANGED, Reason.DOES_NOT_PAY, detail)


def _later(part: float, least: float) -> Verdict:
    detail = f"merging saves about {100 * part:.0f} % of it: VMs with {100 * least:.0f} % and more are merged first"
    return Verdict(Answer.PENDING, Reason.TURN, detail)
