"""What a pass of tiering works with, and what is said of it: who is left alone and why, what was or would be moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memhint.levers.lever import PassResult
from memhint.levers.tiering_moves import Done
from memhint.objects.active import ActiveSource
from memhint.objects.domain import DomainObservation
from memhint.objects.gap import GapReason
from memhint.objects.lever import Observed
from memhint.objects.units import mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.tiering import Move, MoveReason, Tiers, VmMemory

_SET_ACTIVE = "set [active] source to damon, or to auto"


@dataclass(slots=True)
class Pass:
    """What a pass works with, and what came of it so far."""

    tiers: Tiers
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)  # the processes whose memory was looked at
    pids: dict[str, int] = field(default_factory=dict)
    memory: dict[str, VmMemory] = field(default_factory=dict)
    blind: dict[str, Verdict] = field(default_factory=dict)  # of whom it is not known what is in use, and why


def observed_of(verdict: Verdict, wished: bool) -> Observed:
    """What is seen of the lever, by its verdict."""
    if verdict.answer is Answer.UNSUPPORTED:
        return Observed.UNSUPPORTED
    return Observed.ON if wished and verdict.ok else Observed.OFF


def verdict_of(done: Done, memory: VmMemory, work: Pass) -> Verdict:
    """Of one VM, after its ranges were moved."""
    detail = str(done)
    if work.tiers.slow:
        fast = sum(one.bytes for one in memory.pieces if one.node in work.tiers.fast)
        fast += sum(size * sign for why, size in done.moved.items() if (sign := _SIGN.get(why, 0)))
        whole = sum(one.bytes for one in memory.pieces)
        detail += f"; {mib(fast)} of {mib(whole)} MiB lie on fast nodes"
    if done.bytes:
        ended = f"; ended early: {done.ended.detail}" if done.ended is not None else ""
        return Verdict(Answer.APPLIED, Reason.NONE, detail + ended)
    if done.ended is not None:
        return done.ended
    blind = work.blind.get(memory.uuid)
    return blind if blind is not None else Verdict(Answer.UNCHANGED, Reason.NONE, detail)


_SIGN = {MoveReason.PROMOTE: 1, MoveReason.DEMOTE: -1}


def unread(one: DomainObservation) -> Verdict:
    """Why it is not known which of a VM's memory is in use."""
    if one.active is not None and one.active.source is ActiveSource.REFERENCED:
        detail = f"accessed bits do not tell one range from another: {_SET_ACTIVE}"
        return Verdict(Answer.REFUSED, Reason.NO_READING, detail)
    gap = next((gap for gap in one.gaps if gap.what == "active"), None)
    if one.active is None and gap is None:
        return Verdict(Answer.REFUSED, Reason.NO_READING, f"which memory is in use is not read: {_SET_ACTIVE}")
    if gap is not None and gap.reason is not GapReason.PENDING:
        return Verdict(Answer.REFUSED, Reason.NO_READING, f"which memory is in use is not known: {gap.detail}")
    return Verdict(Answer.PENDING, Reason.NO_READING, "which memory is in use is not known yet")


def foretold(moves: Sequence[Move], work: Pass) -> PassResult:
    """What a dry run says: what would be moved."""
    done = {uuid: Done() for uuid in work.memory}
    for move in moves:
        one = done[move.uuid]
        one.moved[move.why] = one.moved.get(move.why, 0) + move.bytes
    for uuid in work.blind:
        # how much is beyond its share is known, if not which of it would go
        memory = work.memory[uuid]
        fast = sum(one.bytes for one in memory.pieces if one.node in work.tiers.fast)
        for why, size in (
            (MoveReason.DEMOTE, fast - memory.share.most),
            (MoveReason.PROMOTE, memory.share.least - fast),
        ):
            if size > 0:
                done[uuid].moved[why] = size
    for uuid, one in done.items():
        blind = "; what is hot or cold, a running agent knows alone" if uuid in work.blind else ""
        detail = f"{one}{blind}".replace("nothing was moved", "nothing would be moved")
        answer = Answer.PLANNED if one.bytes else Answer.UNCHANGED
        work.verdicts[uuid] = Verdict(answer, Reason.DRY_RUN, detail)
    size = sum(one.bytes for one in done.values())
    return PassResult(work.verdicts, Verdict(Answer.PLANNED, Reason.DRY_RUN, f"{mib(size)} MiB would be moved"))
