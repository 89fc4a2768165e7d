"""Memory that has come to the host's VMs since it was looked at last: of VMs that started, or plugged in."""

from __future__ import annotations

import threading


class Arrivals:
    """Counts them. A view that was made at another count than the present one may lack a VM, or some of its memory.

    One for the whole process: what began before its configuration was read again goes by the same count.
    """

    def __init__(self) -> None:
        # Held while something is switched on that newcomers must not meet, and while it is switched off for them.
        self.lock = threading.RLock()
        self._counting = threading.Lock()  # never held for longer than it takes to count
        self._count = 0

    @property
    def count(self) -> int:
        """How many libvirt has told of so far."""
        return self._count

    def note(self) -> None:
        """One more. Called by libvirt's event thread, which must not wait, and by whoever connects."""
        with self._counting:
            self._count += 1
