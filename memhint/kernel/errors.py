"""What can go wrong with a kernel interface, as types that know the gap they leave."""

from __future__ import annotations

from memhint.objects.gap import AbsentError, GapReason


class KernelInterfaceError(AbsentError):
    """A kernel interface gave no usable answer; ``path`` names it, ``detail`` says what happened."""

    def __init__(self, path: str, detail: str = "") -> None:
        super().__init__(detail)
        self.args = (path, detail)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}" if self.detail else self.path


class InterfaceMissing(KernelInterfaceError):
    """This kernel, as built and booted, does not have the interface or the field."""

    reason = GapReason.UNSUPPORTED


class InterfaceUnreadable(KernelInterfaceError):
    """The interface is there and refused to be read."""

    reason = GapReason.UNREADABLE


class InterfaceMalformed(KernelInterfaceError):
    """The interface answered with something that makes no sense."""

    reason = GapReason.MALFORMED


class InterfaceInUse(KernelInterfaceError):
    """Somebody else uses it, and what memhint would do to it would disturb them."""

    reason = GapReason.CONFLICT


class ProcessGone(KernelInterfaceError):
    """The process ended, before or while it was looked at."""

    reason = GapReason.GONE


class WriteRejected(KernelInterfaceError):
    """The kernel refused a value, or took it and reads back another."""

    reason = GapReason.UNREADABLE


class WriteIncomplete(WriteRejected):
    """The kernel did a part of what was asked and says so with EAGAIN, as a reclaim that found too little does."""
