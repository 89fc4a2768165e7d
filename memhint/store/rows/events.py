"""The row of a pull."""

from __future__ import annotations

from memhint.objects.event import Event


def event_row(one: Event) -> dict[str, object]:
    """As it is kept."""
    return {
        "at": one.at,
        "host": one.host,
        "subject": one.subject,
        "lever": str(one.lever),
        # What a guest or a hypervisor said may be of any length, and PostgreSQL's texts have no NUL.
        "desired": one.desired.replace("\0", "")[:64],
        "answer": str(one.verdict.answer),
        "reason": str(one.verdict.reason),
        "detail": one.verdict.detail.replace("\0", "")[:4000],
    }
