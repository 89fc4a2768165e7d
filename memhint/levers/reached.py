"""Which QEMU process took what a VM's lever asked for last.

libvirt knows domains: a call that was late reaches the process that the domain has by then.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Generic, TypeVar

from memhint.objects.verdict import Answer, Reason, Verdict

T = TypeVar("T")

ENDED = Verdict(Answer.PENDING, Reason.NOT_RUNNING, "its QEMU has ended since it was looked at")
REPLACED = Verdict(Answer.PENDING, Reason.NOT_RUNNING, "the VM has got another QEMU since it was looked at")


class Reached(Generic[T]):
    """What was taken, by process, in this agent's life. A mark alone does not say so: it is put before."""

    def __init__(self, runs: Callable[[str], bool]) -> None:
        """:param runs: whether a QEMU process runs, by its instance"""
        self.runs = runs
        self._last: dict[str, tuple[str, T]] = {}  # by UUID

    def of(self, uuid: str, instance: str) -> T | None:
        """What this process took; None where that is not known."""
        last = self._last.get(uuid)
        return last[1] if last is not None and last[0] == instance else None

    def note(self, uuid: str, instance: str, what: T) -> None:
        """libvirt has taken it: for this process where that runs still, and otherwise nobody knows for which one."""
        if self.runs(instance):
            self._last[uuid] = (instance, what)

    def forget(self, uuid: str) -> None:
        """Something else is asked for now: a call that fails may take effect all the same."""
        self._last.pop(uuid, None)

    def retain(self, uuids: Container[str]) -> None:
        """Forget all other VMs."""
        self._last = {uuid: last for uuid, last in self._last.items() if uuid in uuids}
