"""What the host reads from swap: all in all, and at this moment."""

from __future__ import annotations

import os
from contextlib import suppress

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.fields import number
from memhint.kernel.process import process_swap
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.swap import SwapArea, swap_activity, swap_areas


class SwapReads:
    """Counters, cheap enough to be looked at ten times a second."""

    def __init__(self, root: KernelRoot, page_size: int = PAGE_SIZE) -> None:
        self._root = root
        self._page = page_size

    def total(self) -> int:
        """Bytes that were read from swap since boot, for whomever.

        :raises KernelInterfaceError: when the kernel does not count them
        """
        return swap_activity(self._root, self._page).swapped_in

    def of(self, pid: int) -> int:
        """Bytes that a process has in swap and did not touch since.

        :raises ProcessGone: when the process ended
        :raises KernelInterfaceError: when it cannot be read
        """
        return process_swap(self._root, pid)


class SwapQueue:
    """The disks that the host swaps on now."""

    def __init__(self, root: KernelRoot) -> None:
        """One whose queue the kernel does not show is left out, such as that of a file on btrfs."""
        self._root = root
        self._files = []
        with suppress(KernelInterfaceError):
            for area in swap_areas(root):
                with suppress(OSError):
                    file = _inflight(root, area)
                    if root.exists(file):
                        self._files.append(file)

    def waiting(self) -> int:
        """Reads that the disks have not answered: on dm-crypt of a page each, on others of as many as were merged."""
        found = 0
        for file in self._files:
            with suppress(KernelInterfaceError, IndexError):  # nobody swaps on it any more
                found += number(self._root.read_words(file)[0], self._root.path(file))
        return found


def _inflight(root: KernelRoot, area: SwapArea) -> str:
    """Of a device by its name, for a service sees none in /dev; of a file that of the device its file system is on."""
    if not area.file:
        return f"sys/class/block/{area.name.removeprefix('/dev/')}/inflight"
    device = os.stat(root.path(area.name.replace("\\040", " "))).st_dev
    return f"sys/dev/block/{os.major(device)}:{os.minor(device)}/inflight"
