"""QEMU's counters of free page reporting, as its monitor gives them. QEMU is trusted, and still read strictly."""

from __future__ import annotations

from memhint.objects.discarded import BalloonReporting, Ranges
from memhint.virt.answers import flag, whole
from memhint.virt.errors import MonitorAnswerMalformed
from memhint.virt.recycler import parse_recycler

COMMAND = "query-balloon-reporting"
_PARTS = ("discarded", "skipped-inhibited", "skipped-poison", "skipped-unaligned", "skipped-invalid", "failed")


def parse_balloon_reporting(answer: object, at: float) -> BalloonReporting:
    """The record of an answer.

    :param at: unix seconds at which it was asked for
    :raises MonitorAnswerMalformed: a member is missing or of another kind, or the parts do not make up the sum
    """
    if not isinstance(answer, dict):
        raise MonitorAnswerMalformed(f"{COMMAND} answered no object")
    parts = {name: _ranges(answer, name) for name in _PARTS}
    reported = _ranges(answer, "reported")
    found = Ranges(sum(one.ranges for one in parts.values()), sum(one.bytes for one in parts.values()))
    if found != reported:
        raise MonitorAnswerMalformed(f"{COMMAND}: the parts do not make up what was reported")
    # Builds of QEMU before it was optional say 0 where there was no report.
    last = whole(answer, "last-report", COMMAND) if "last-report" in answer else 0
    return BalloonReporting(
        at=at,
        enabled=flag(answer, "enabled", COMMAND),
        negotiated=flag(answer, "negotiated", COMMAND),
        reported=reported,
        discarded=parts["discarded"],
        skipped_inhibited=parts["skipped-inhibited"],
        skipped_poison=parts["skipped-poison"],
        skipped_unaligned=parts["skipped-unaligned"],
        skipped_invalid=parts["skipped-invalid"],
        failed=parts["failed"],
        last_report=float(last) if last else None,
        recycler=parse_recycler(answer, COMMAND),
    )


def _ranges(answer: dict[str, object], name: str) -> Ranges:
    found = answer.get(name)
    if not isinstance(found, dict):
        raise MonitorAnswerMalformed(f"{COMMAND}: {name} is no object")
    return Ranges(whole(found, "ranges", COMMAND), whole(found, "bytes", COMMAND))
