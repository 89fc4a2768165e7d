"""What could not be observed, and why. A number that is missing is a Gap, never 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from memhint.objects.words import Word


class GapReason(Word):
    """Why a value is absent."""

    UNSUPPORTED = "unsupported"  # this kernel, hypervisor or guest does not have it
    UNREADABLE = "unreadable"  # it exists and refused to be read
    MALFORMED = "malformed"  # it answered, and the answer makes no sense
    TIMEOUT = "timeout"  # it did not answer in time
    PENDING = "pending"  # not looked at yet: the CPU budget or the back-off comes first
    GONE = "gone"  # the VM or its process ended while being looked at
    CONFLICT = "conflict"  # somebody else uses the only way to it


@dataclass(frozen=True, slots=True)
class Gap:
    """One value that is absent: ``what`` names it as the record does."""

    what: str
    reason: GapReason
    detail: str = ""

    def __str__(self) -> str:
        return gap_text(self.what, self.reason, self.detail)


def gap_text(what: str, reason: str, detail: str | None) -> str:
    """A gap for people."""
    return f"{what}: {reason}" + (f" ({detail})" if detail else "")


class AbsentError(Exception):
    """The root of what goes wrong where a value is read: it knows the gap that is left."""

    reason: ClassVar[GapReason] = GapReason.UNREADABLE

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail)
        self.detail = detail

    def gap(self, what: str) -> Gap:
        """The absence of the value that ``what`` names."""
        return Gap(what, self.reason, str(self))
