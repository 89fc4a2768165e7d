"""Why a guest could not be asked or its answer not be used. Each error knows the gap it leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from memhint.objects.gap import AbsentError, GapReason
from memhint.objects.verdict import Reason

_DETAIL_MAX = 300


def _presentable(detail: str) -> str:
    """A detail that is fit for a log line: a guest may have written any part of it."""
    if len(detail) > _DETAIL_MAX:
        detail = detail[:_DETAIL_MAX] + "…"
    return "".join(char if char.isprintable() else "?" for char in detail)


class GuestError(AbsentError):
    """The root of everything that can go wrong between memhint and one guest."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(_presentable(detail))


class GuestSilent(GuestError):
    """No answer came, so there is no point in the conversation's next question."""


class GuestAgentAbsent(GuestSilent):
    """No agent listens: not installed, not started, or the VM has no channel for it."""

    reason = GapReason.UNSUPPORTED


class GuestConnectionLost(GuestSilent):
    """The way to the agent broke while it was spoken to: perhaps by chance, perhaps by what it answered."""

    reason = GapReason.UNREADABLE


class GuestTimeout(GuestSilent):
    """The agent did not answer in time, or the conversation's budget is used up."""

    reason = GapReason.TIMEOUT


class GuestCommandMissing(GuestError):
    """The agent does not know the command."""

    reason = GapReason.UNSUPPORTED
    verdict: ClassVar[Reason] = Reason.GUEST_COMMAND


class GuestCommandBlocked(GuestCommandMissing):
    """The agent knows the command, and its configuration blocks it."""

    verdict = Reason.GUEST_BLOCKED


def blocked(commands: Iterable[str]) -> str:
    """What a guest's administrator has to do for commands that the agent's configuration blocks."""
    return f"blocked by the guest's administrator: allow {', '.join(sorted(commands))} in the agent's configuration"


class GuestCommandFailed(GuestError):
    """The agent tried and answered with an error, for example EINVAL on a write."""

    reason = GapReason.UNREADABLE

    def __init__(self, detail: str = "", error_class: str = "GenericError") -> None:
        self.error_class = _presentable(error_class)
        super().__init__(detail)


class GuestWriteRefused(GuestCommandFailed):
    """The guest's kernel did not take what was written to one of its files: all is as it was."""


class GuestAnswerMalformed(GuestError):
    """There is an answer and it makes no sense: not JSON, a wrong type, too large, too deep, a key missing.

    ``path`` names the place in the answer, ``supported_commands[3].name``; it is empty for the answer as a whole.
    """

    reason = GapReason.MALFORMED

    def __init__(self, problem: str, path: str = "") -> None:
        self.problem = problem
        self.path = path
        super().__init__(f"{path}: {problem}" if path else problem)
