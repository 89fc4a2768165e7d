"""Order and delay of free page reporting, on guest kernels that let an extended agent change them while it is on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memhint.guest.errors import GuestCommandFailed
from memhint.guest.page_reporting import ReportingParameter, set_page_reporting
from memhint.guest.protocol import GuestAgent
from memhint.levers import guest_boot
from memhint.levers.reporting_flush import Flushes
from memhint.objects.guest import GuestKernel, GuestMemory
from memhint.objects.ownership import Ledger, Mark, on_the_way
from memhint.objects.tuning import Tuning
from memhint.objects.verdict import Answer, Reason, Verdict

TUNED_ORDER_KNOB = "guest page_reporting tuned order"
DELAY_KNOB = "guest page_reporting_delay_ms"
KNOBS = {TUNED_ORDER_KNOB: ReportingParameter.ORDER, DELAY_KNOB: ReportingParameter.DELAY_MS}
_ARGUMENTS = {ReportingParameter.ORDER: "order", ReportingParameter.DELAY_MS: "delay_ms"}


@dataclass(frozen=True, slots=True)
class _Change:
    knob: str
    before: int
    after: int

    @property
    def argument(self) -> str:
        return _ARGUMENTS[KNOBS[self.knob]]


def tunable(kernel: GuestKernel | None) -> bool:
    """Whether this guest's kernel and agent can change either while reporting is on."""
    return kernel is not None and any(setting in kernel.settable for setting in KNOBS.values())


def tune(
    ledger: Ledger,
    now: Callable[[], float],
    uuid: str,
    kernel: GuestKernel,
    agent: GuestAgent,
    tuning: Tuning,
    memory: GuestMemory | None,
    flushes: Flushes,
) -> Verdict:
    """Bring order and delay to what is wished, all in one call, and what is not wished any more to what it was.

    Where a flush is wished it goes with a change, or by itself when the guest came to rest after it freed memory.

    :param memory: what the guest says now: what is free there is the most that a flush can report; None flushes nothing
    :raises GuestError: the guest refused, or did not answer; a mark tells what may have been changed
    """
    missing = [
        KNOBS[knob] for knob, wish in _wishes(tuning).items() if wish is not None and KNOBS[knob] not in kernel.settable
    ]
    _forget(ledger, uuid, kernel, tuning)
    changes = list(_changes(ledger, uuid, kernel, tuning))
    free = memory.free if memory is not None else None
    flush = (
        {"flush": free}
        if tuning.flush and free and kernel.enabled and ReportingParameter.FLUSH in kernel.settable
        else {}
    )
    if not changes:
        if flush and flushes.due(uuid, kernel, memory, tuning.rests):
            flushes.note(uuid, kernel, memory, tuning.rests)
            flushes.note(uuid, kernel, memory, tuning.rests, set_page_reporting(agent, **flush).flushed)
        if missing:
            return Verdict(Answer.UNSUPPORTED, Reason.KERNEL, f"the guest cannot change {' and '.join(missing)}")
        return Verdict(Answer.UNCHANGED)
    # Not of what is on its way back: where the guest does not take it, what stands there is memhint's still.
    known = {one.knob: ledger.get(uuid, one.knob) for one in changes if _wishes(tuning)[one.knob] is not None}
    new: dict[str, Mark] = {}
    for change in changes:
        if change.knob in known:
            guest_boot.drop_if_set_since(ledger, kernel, known[change.knob], str(change.before))
            former = guest_boot.before(ledger, uuid, change.knob, str(change.before))
            mark = Mark(uuid, change.knob, former, str(change.after), kernel.boot_id or "", now())
            new[change.knob] = mark
            ledger.put(on_the_way(mark, known[change.knob], str(change.before)))
    arguments: dict[str, int] = {change.argument: change.after for change in changes}
    try:
        answer = set_page_reporting(agent, **arguments, **flush)
    except GuestCommandFailed:  # all is as it was
        for knob, former_mark in known.items():
            if former_mark is None:
                ledger.remove(uuid, knob)
            else:
                ledger.put(former_mark)
        raise
    if flush:
        flushes.note(uuid, kernel, memory, tuning.rests, answer.flushed)
    seen = {"order": answer.order, "delay_ms": answer.delay_ms}
    if any(seen[change.argument] != change.after for change in changes):
        return Verdict(Answer.FAILED, Reason.GUEST_ANSWER, "the guest took the settings and shows others")
    for change in changes:
        kept = ledger.get(uuid, change.knob)
        if kept is not None and kept.before == str(change.after):
            ledger.remove(uuid, change.knob)
        elif kept is not None and kept.after != str(change.after) and change.knob in new:
            ledger.put(new[change.knob])
    words = ", ".join(f"{KNOBS[change.knob]} {change.before} to {change.after}" for change in changes)
    if answer.flushed:
        words += f"; {answer.flushed >> 20} MiB flushed"
    return Verdict(Answer.APPLIED, Reason.NONE, words)


def planned(ledger: Ledger, uuid: str, kernel: GuestKernel, tuning: Tuning) -> str:
    """What `tune` would change, in words; empty for nothing."""
    return ", ".join(
        f"{KNOBS[change.knob]} {change.before} to {change.after}" for change in _changes(ledger, uuid, kernel, tuning)
    )


def _wishes(tuning: Tuning) -> dict[str, int | None]:
    return {TUNED_ORDER_KNOB: tuning.order, DELAY_KNOB: tuning.delay_ms}


def _changes(ledger: Ledger, uuid: str, kernel: GuestKernel, tuning: Tuning) -> Iterator[_Change]:
    current = {TUNED_ORDER_KNOB: kernel.order, DELAY_KNOB: kernel.delay_ms}
    for knob, wish in _wishes(tuning).items():
        present = current[knob]
        if KNOBS[knob] not in kernel.settable or present is None:
            continue
        if wish is None:
            mark = ledger.get(uuid, knob)
            wish = int(mark.before) if mark is not None and _ours(mark, kernel, present) else None
        if wish is not None and wish != present:
            yield _Change(knob, present, wish)


def _ours(mark: Mark, kernel: GuestKernel, present: int) -> bool:
    """Whether what is set now is what memhint set: in this boot of the guest, and not by somebody else since."""
    return guest_boot.may_be_of_this_boot(kernel, mark) and mark.made(str(present))


def _forget(ledger: Ledger, uuid: str, kernel: GuestKernel, tuning: Tuning) -> None:
    """Marks of settings that are not wished any more, and are not ours or are back already."""
    current = {TUNED_ORDER_KNOB: kernel.order, DELAY_KNOB: kernel.delay_ms}
    for knob, wish in _wishes(tuning).items():
        mark, present = ledger.get(uuid, knob), current[knob]
        if mark is None or present is None or wish is not None:
            continue
        if mark.before == str(present) or not _ours(mark, kernel, present):
            ledger.remove(uuid, knob)
