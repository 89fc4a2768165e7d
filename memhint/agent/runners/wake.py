"""Has what VMs have in swap read ahead when they wake."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from memhint.agent.runners.runner import LeverRunner, RunnerContext
from memhint.agent.view import HostSnapshot
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.guest_advice import GuestAdvice
from memhint.kernel.process import pid_of
from memhint.kernel.root import KernelRoot
from memhint.kernel.swap_reads import SwapQueue, SwapReads
from memhint.levers.lever import Stop
from memhint.levers.read_ahead import ReadAhead, ReadAheadSettings, read_ahead
from memhint.levers.wake_room import wake_room
from memhint.levers.wake_watch import WakeWatch
from memhint.objects.units import MIB
from memhint.planner.plan import Planned

LOG = logging.getLogger(__name__)
EVERY = 0.1  # seconds between two looks
SHARE = 0.01  # of the time that looking may take: of many VMs a look takes longer, and is taken less often
REST = 10.0  # seconds for which a VM that was read ahead is not read ahead again
AT_ONCE = 4  # VMs that are read ahead; of more, each waits for its own pages

Read = Callable[[str, Stop], ReadAhead]
"""Read ahead what a QEMU process, by its instance, has in swap."""
Processes = dict[str, tuple[int, int]]
"""Bytes resident and in swap, by instance."""


class Watch(Protocol):
    """Sees VMs wake."""

    def want(self, processes: Processes) -> None:
        """Look at these."""

    def look(self) -> list[str]:
        """Who woke, by instance."""


class WakeRunner(LeverRunner):
    """Watches the VMs that have memory in swap and whose policy lets memhint send it there.

    Nothing of the host is changed: what was read is in the kernel's swap cache, and mapped as at a touch of the VM.
    """

    def __init__(
        self,
        watch: Watch,
        read: Read,
        *,
        enabled: bool = True,
        clock: Callable[[], float] = time.monotonic,
        every: float = EVERY,
    ) -> None:
        self._watch = watch
        self._read = read
        self._enabled = enabled
        self._clock = clock
        self._every = every
        self._lock = threading.Lock()
        self._wanted: Processes | None = None
        self._reading: dict[str, threading.Thread] = {}
        self._rests: dict[str, float] = {}
        self._some = threading.Event()  # there is somebody to watch, or it is over
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def pull(self, view: HostSnapshot, planned: Planned) -> None:
        """Watch who has something in swap now."""
        if not view.seen.listed or self._stop.is_set() or not self._enabled:
            return
        wanted = {
            one.process.instance: (one.process.rss, one.process.swap)
            for one in view.seen.domains
            if one.process is not None and one.process.swap and view.policies[one.uuid].swap_out
        }
        with self._lock:
            self._wanted = wanted
        if not wanted:
            self._some.clear()
            return
        self._some.set()
        if self._thread is None:
            self._thread = _started(threading.Thread(target=self._run, name="wakes", daemon=True))

    def settle(self, timeout: float) -> bool:
        """Wait for what is read now."""
        end = time.monotonic() + timeout
        with self._lock:
            threads = list(self._reading.values())
        for one in threads:
            one.join(max(0.0, end - time.monotonic()))
        return not any(one.is_alive() for one in threads)

    def close(self) -> None:
        """Watch nobody any more; what is read now ends with its block."""
        self._stop.set()
        self._some.set()

    def _run(self) -> None:
        while self._some.wait() and not self._stop.is_set():
            began = time.monotonic()
            try:
                self._look()
            except KernelInterfaceError as error:
                LOG.debug("nobody is seen to wake: %s", error)
            except Exception:  # a defect here must show, and costs no more than reading ahead
                LOG.exception("nobody is read ahead any more")
                return
            self._stop.wait(max(self._every, (time.monotonic() - began) / SHARE))

    def _look(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._watch.want(wanted)
        for instance in self._watch.look():
            self._begin(instance)

    def _begin(self, instance: str) -> None:
        now = self._clock()
        with self._lock:
            self._rests = {name: until for name, until in self._rests.items() if until > now}
            self._reading = {name: one for name, one in self._reading.items() if one.is_alive()}
            if instance in self._rests or instance in self._reading or len(self._reading) >= AT_ONCE:
                return
            thread = _started(threading.Thread(target=self._ahead, args=(instance,), name="read-ahead", daemon=True))
            if thread is not None:
                self._reading[instance] = thread

    def _ahead(self, instance: str) -> None:
        try:
            done = self._read(instance, self._stop.is_set)
            LOG.info(
                "process %s woke: read %d MiB ahead and mapped %d%s",
                instance,
                done.size >> 20,
                done.mapped >> 20,
                done.ended and f": {done.ended}",
            )
        except KernelInterfaceError as error:
            LOG.info("process %s woke and is not read ahead: %s", instance, error)
        except Exception:  # a defect here must show
            LOG.exception("reading ahead failed")
        with self._lock:
            self._rests[instance] = self._clock() + REST


def _started(thread: threading.Thread) -> threading.Thread | None:
    """The thread, or None where it could not be started: no host has threads without end."""
    try:
        thread.start()
    except RuntimeError as error:
        LOG.warning("%s is begun later: %s", thread.name, error)
        return None
    return thread


def reader(root: KernelRoot, room: Callable[[], int], settings: ReadAheadSettings) -> Read:
    """What reads ahead.

    :param room: bytes that the host can give away and keep its reserve
    """
    reads = SwapReads(root)

    def read(instance: str, stop: Stop) -> ReadAhead:
        pid = pid_of(instance)
        with GuestAdvice(root, instance) as guest:
            return read_ahead(
                guest,
                lambda: reads.of(pid),
                wake_room(root, pid, room),
                SwapQueue(root).waiting,
                settings,
                clock=time.monotonic,
                sleep=time.sleep,
                stop=stop,
            )

    return read


def build(context: RunnerContext) -> WakeRunner:
    """The runner of a host."""
    settings = ReadAheadSettings(per_second=context.conf.swap_out.read_ahead_mib * MIB)
    enabled = bool(settings.per_second) and not context.dry_run
    watch = WakeWatch(SwapReads(context.root), time.monotonic)
    return WakeRunner(watch, reader(context.root, context.room, settings), enabled=enabled)
