"""move_pages(2) on another process: where its pages lie, and moving ranges of them to another NUMA node.

The kernel copies each page and then lets the process go on with the copy: a page is at one place or at the other, never
at both or at none, whatever becomes of the caller. The process's memory policy stays what it was. Pages that are
locked, of a file that others map, or shared with another process (as KSM's are) stay where they are.

The call gives up at the first page that it could not move, and does not say which it was or why. So what is left is
tried again in halves, and in the end it is looked where each page lies.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memhint.kernel.errors import InterfaceMissing, InterfaceUnreadable, KernelInterfaceError, ProcessGone
from memhint.kernel.open_process import OpenProcess
from memhint.kernel.process import instance_runs, pid_of
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.thp import HUGE_PAGE

_NUMBERS = {"x86_64": 279, "aarch64": 239}  # of the system call
_MOVE = 2  # MPOL_MF_MOVE: only pages that no other process maps
_UNTOUCHED = -(1 << 20)  # a status that the kernel has not written
_CALLS = 64  # of one range, until what could not be moved is left alone
_FULL = frozenset({errno.ENOMEM})
_NO_NODE = frozenset({errno.ENODEV})
_GONE = frozenset({errno.ESRCH, errno.EINVAL})  # EINVAL: it ended, and its parent has not asked for it yet


@dataclass(slots=True)
class Moved:
    """What became of a range. Bytes."""

    moved: int = 0
    there: int = 0  # lay on the target before
    absent: int = 0  # no memory of its own: never touched, swapped out, or the kernel's zero page
    failed: Counter[int] = field(default_factory=Counter)  # by errno; EAGAIN where the kernel does not say why

    def add(self, other: Moved) -> None:
        """Count another range, too."""
        self.moved += other.moved
        self.there += other.there
        self.absent += other.absent
        self.failed += other.failed

    @property
    def full(self) -> bool:
        """Whether the target had no room for all of it."""
        return bool(self.failed.keys() & _FULL)

    @property
    def no_node(self) -> bool:
        """Whether the target is no node with memory, any more."""
        return bool(self.failed.keys() & _NO_NODE)

    def why(self) -> str:
        """What failed, in words: ``4 MiB EAGAIN``; empty where nothing did."""
        names = sorted((errno.errorcode.get(number, str(number)), size) for number, size in self.failed.items())
        return ", ".join(f"{size >> 20} MiB {name}" for name, size in names)


class PageMover(OpenProcess):
    """The pages of one QEMU process, for any number of threads at a time on ranges that do not overlap.

    The system call takes a pid, so the process is held by a pidfd, and looked at before each range: a pid that another
    process gets is not followed.
    """

    _descriptors = ("_pidfd",)

    def __init__(self, root: KernelRoot, instance: str) -> None:
        """:param instance: `ProcessMemory.instance`

        :raises ProcessGone: when the process ended
        :raises InterfaceMissing: when the kernel cannot do it
        :raises KernelInterfaceError: when it may not be done
        """
        self._root = root
        self._instance = instance
        self._pid = pid_of(instance)
        self._path = root.path(f"proc/{self._pid}")
        self._pidfd = -1
        self._number = _NUMBERS.get(platform.machine(), -1)
        self._libc = ctypes.CDLL(None, use_errno=True)
        if self._number < 0:
            raise InterfaceMissing("move_pages", f"its number on {platform.machine()} is not known here")
        try:
            self._pidfd = os.pidfd_open(self._pid)
        except OSError as error:
            raise self._failed(error.errno or 0) from error
        try:
            self._check()
            failure, _ = self._call(array("Q"), None, array("i"))  # of nothing: whether it could be done
            if failure:
                raise self._failed(failure)
        except BaseException:
            self.close()
            raise

    def nodes(self, addresses: array[int]) -> array[int]:
        """The node that each page lies on, or a negative errno: -ENOENT has no memory, -EFAULT is the zero page.

        :param addresses: of 64 bits
        :raises KernelInterfaceError: when the process ended, or may not be looked at
        """
        found = array("i", [_UNTOUCHED]) * len(addresses)
        failure, _ = self._call(addresses, None, found)
        if failure:
            raise self._failed(failure)
        return found

    def move(self, start: int, end: int, node: int) -> Moved:
        """Move what has memory in a range. Two calls move all of it where nothing is in the way.

        :raises KernelInterfaceError: when the process ended, or it may not be done
        """
        self._check()
        pages = array("Q", range(start, end, PAGE_SIZE))
        before = self.nodes(pages)
        left = array("Q", (page for page, at in zip(pages, before, strict=True) if at >= 0 and at != node))
        done = Moved()
        done.there = PAGE_SIZE * sum(at == node for at in before)
        done.absent = PAGE_SIZE * sum(at in (-errno.ENOENT, -errno.EFAULT) for at in before)
        for at in before:
            if at < 0 and at not in (-errno.ENOENT, -errno.EFAULT):
                done.failed[-at] += PAGE_SIZE
        if not left:
            return done
        # A huge page moves as a whole: asked for a second time within one call, its pages are said to be busy.
        said: dict[int, int] = {}
        failure = self._push(_one_of_each(left, HUGE_PAGE), node, said)
        after = self.nodes(left)
        rest = array("Q", (page for page, at in zip(left, after, strict=True) if at >= 0 and at != node))
        if rest and not failure:
            failure = self._push(rest, node, said)
            after = self.nodes(left)
        for page, at in zip(left, after, strict=True):
            if at == node:
                done.moved += PAGE_SIZE
            elif at in (-errno.ENOENT, -errno.EFAULT):
                done.absent += PAGE_SIZE  # given back meanwhile
            else:
                done.failed[said.get(page) or failure or errno.EAGAIN] += PAGE_SIZE
        return done

    def _push(self, pages: array[int], node: int, said: dict[int, int]) -> int:
        """Ask for pages to be moved, and note by page what the kernel said against it.

        The errno that ended it, 0 where none did: it is of the target, so there is no use in trying more.
        """
        waiting, calls = [pages], 0
        while waiting and calls < _CALLS:
            some = waiting.pop()
            status = array("i", [_UNTOUCHED]) * len(some)
            failure, left = self._call(some, node, status)
            calls += 1
            if failure in _GONE:
                raise self._failed(failure)
            said.update((page, -one) for page, one in zip(some, status, strict=True) if _UNTOUCHED < one < 0)
            if failure:
                return failure
            if left <= 0:
                continue
            untried = array("Q", (page for page, one in zip(some, status, strict=True) if one == _UNTOUCHED))
            if len(untried) == 1:
                said[untried[0]] = errno.EAGAIN
            elif len(untried) > 1:
                half = len(untried) // 2
                waiting += [untried[half:], untried[:half]]
        return 0

    def _check(self) -> None:
        if not instance_runs(self._root, self._instance):
            raise ProcessGone(self._path, "the process ended")

    def _call(self, pages: array[int], node: int | None, status: array[int]) -> tuple[int, int]:
        """Errno of the call as a whole, 0 where it worked; and how many pages it left."""
        nodes = None if node is None else array("i", [node]) * len(pages)
        call = self._libc.syscall
        call.restype = ctypes.c_long
        done = call(
            ctypes.c_long(self._number),
            ctypes.c_int(self._pid),
            ctypes.c_ulong(len(pages)),
            ctypes.c_void_p(pages.buffer_info()[0]),
            ctypes.c_void_p(None if nodes is None else nodes.buffer_info()[0]),
            ctypes.c_void_p(status.buffer_info()[0]),
            ctypes.c_int(_MOVE),
        )
        return (ctypes.get_errno(), 0) if done < 0 else (0, int(done))

    def _failed(self, number: int) -> KernelInterfaceError:
        if number in _GONE:
            return ProcessGone(self._path, "the process ended")
        if number == errno.ENOSYS:
            return InterfaceMissing("move_pages", "the kernel is built without it")
        return InterfaceUnreadable("move_pages", f"{self._path}: {os.strerror(number)}")


def _one_of_each(pages: Sequence[int], block: int) -> array[int]:
    """The first page of each block, of pages in ascending order."""
    found, last = array("Q"), -1
    for page in pages:
        if page // block != last:
            found.append(page)
            last = page // block
    return found
