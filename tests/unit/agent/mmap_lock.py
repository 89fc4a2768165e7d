"""The mmap locks of processes, as far as readers of /proc see them."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memhint.kernel.root import KernelRoot
from tests.unit.agent.fake_host import WAIT_S

# What the kernel shows without it. It takes it for the rest, or for some of that in some versions.
_FREE = frozenset({"status", "stat", "comm", "cgroup", "oom_score_adj", "ksm_partition"})
_FILE = re.compile(r"/?proc/(\d+)/(\w+)$")


class MmapLocks:
    """Whoever reads what takes the lock of a process waits while it is held. The test's own thread may not ask at all:
    it is that of the cycle, for which others wait.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._own = threading.get_ident()
        self._held: dict[int, threading.Event] = {}
        self.asked: list[tuple[int, str]] = []
        for name in ("read_text", "lines", "open"):
            self._guard(monkeypatch, name)

    @contextmanager
    def held(self, *pids: int) -> Iterator[None]:
        """Somebody changes mappings of these for long."""
        free = threading.Event()
        self._held |= dict.fromkeys(pids, free)
        try:
            yield
        finally:
            for pid in pids:
                del self._held[pid]
            free.set()

    def _guard(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        plain = getattr(KernelRoot, name)

        def guarded(root, relative, *rest):
            found = _FILE.match(relative)
            if found is not None and found[2] not in _FREE:
                self._take(int(found[1]), found[2])
            return plain(root, relative, *rest)

        monkeypatch.setattr(KernelRoot, name, guarded)

    def _take(self, pid: int, name: str) -> None:
        assert threading.get_ident() != self._own, f"all wait for the mmap lock of {pid}, for its {name}"
        self.asked.append((pid, name))
        free = self._held.get(pid)
        if free is not None:
            assert free.wait(WAIT_S)
