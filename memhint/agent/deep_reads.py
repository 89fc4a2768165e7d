"""The reads that walk page tables (smaps_rollup, numa_maps), on a thread and a CPU budget of their own.

Each of the two costs about 10 ms per GiB of 4 KiB pages: a 512 GiB host would lose seconds to one round of them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory
from memhint.objects.domain import DeepMemory, ProcessMemory

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    instance: str
    memory: DeepMemory


def next_due(
    wanted: Mapping[str, ProcessMemory], read_at: Mapping[str, float], now: float, interval: float
) -> str | None:
    """The VM whose reading is the oldest, once it is older than ``interval`` seconds; one never read comes first."""
    due = [(read_at.get(uuid, float("-inf")), uuid) for uuid in wanted]
    due = [(at, uuid) for at, uuid in due if now - at >= interval]
    return min(due)[1] if due else None


class DeepReads:
    """Newest deep reading per VM. The CPU they take stays below ``cpu_percent`` of one core over time."""

    def __init__(
        self,
        root: KernelRoot,
        page_size: int,
        cpu_percent: float,
        interval: float,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._page_size = page_size
        self._share = cpu_percent / 100.0
        self._interval = interval
        self._wall = wall
        self._lock = threading.Lock()
        self._wanted: dict[str, ProcessMemory] = {}
        self._kept: dict[str, _Kept] = {}
        self._tried: dict[str, float] = {}
        self._count = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read in the background; a share of 0 reads nothing."""
        if self._share <= 0:
            return
        self._thread = threading.Thread(target=self._run, name="deep-reads", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; a read under way is not waited for."""
        self._stop.set()

    def inherit(self, before: DeepReads) -> None:
        """Go on from what an earlier one of this process has read: zero pages that are not known cost nothing."""
        if self._share <= 0:
            return
        with before._lock:
            self._kept, self._tried = dict(before._kept), dict(before._tried)

    def want(self, processes: Mapping[str, ProcessMemory]) -> None:
        """The VMs that run now, by UUID."""
        with self._lock:
            self._wanted = dict(processes)
            self._kept = {
                uuid: kept
                for uuid, kept in self._kept.items()
                if uuid in processes and processes[uuid].instance == kept.instance
            }
            self._tried = {uuid: at for uuid, at in self._tried.items() if uuid in processes}

    def newest(self, uuid: str) -> DeepMemory | None:
        """The last reading of this VM's present process."""
        with self._lock:
            kept = self._kept.get(uuid)
            return kept.memory if kept else None

    def taken(self) -> int:
        """How many readings were made since this was last asked."""
        with self._lock:
            count, self._count = self._count, 0
            return count

    def read_next(self, now: float) -> float:
        """Read the VM that is due, if one is, and say how long to rest: CPU seconds taken over the share allowed."""
        with self._lock:
            uuid = next_due(self._wanted, self._tried, now, self._interval)
            process = self._wanted[uuid] if uuid is not None else None
        if uuid is None or process is None:
            return min(1.0, self._interval)
        began = time.thread_time()
        with self._lock:
            self._tried[uuid] = now  # also where it fails in a way that nobody has thought of: others have their turns
        try:
            memory = deep_memory(self._root, process.pid, self._wall(), self._page_size)
        except KernelInterfaceError as error:
            LOG.debug("deep read of %s: %s", uuid, error)
            memory = None
        took = time.thread_time() - began
        with self._lock:
            current = self._wanted.get(uuid)
            if memory is not None and current is not None and current.instance == process.instance:
                self._kept[uuid] = _Kept(process.instance, memory)
                self._count += 1
        return took / self._share

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                rest = self.read_next(time.monotonic())
            except Exception:  # a defect here must not end the reading for good: zero pages would count for nothing
                LOG.exception("deep reading failed")
                rest = self._interval
            self._stop.wait(rest)
