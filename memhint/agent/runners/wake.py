"""Has what VMs have in swap read ahead when they wake: the kernel tells at once that a VM waits for its memory."""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from memhint.agent.runners.runner import LeverRunner
from memhint.agent.view import HostView
from memhint.kernel.errors import KernelInterfaceError
from memhint.levers.lever import Stop
from memhint.levers.read_ahead import ReadAhead
from memhint.planner.plan import Planned

LOG = logging.getLogger(__name__)
REST = 10.0  # seconds for which a VM that was read ahead is not looked at
AT_ONCE = 4  # VMs that are read ahead; of more, each waits for its own pages

Read = Callable[[str, Stop], ReadAhead]
"""Read ahead what a QEMU process, by its instance, has in swap."""


class WakeRunner(LeverRunner):
    """Watches the VMs that have memory in swap and whose policy lets memhint send it there.

    Nothing of the host is changed: a trigger ends with its descriptor, and what was read is in the kernel's swap cache.
    """

    def __init__(
        self,
        trigger: Callable[[str], int],
        read: Read,
        *,
        enabled: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param trigger: a descriptor that polls with POLLPRI once a process, by its instance, waits for its memory

        :raises OSError: when there are no descriptors left
        """
        self._trigger = trigger
        self._read = read
        self._enabled = enabled
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted: frozenset[str] = frozenset()
        self._reading: dict[str, threading.Thread] = {}
        self._rests: dict[str, float] = {}
        self._news, self._tell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def pull(self, view: HostView, planned: Planned) -> None:
        """Watch who has something in swap now."""
        if not view.seen.listed or self._stop.is_set() or not self._enabled:
            return
        self._wanted = frozenset(
            one.process.instance
            for one in view.seen.domains
            if one.process is not None and one.process.swap and view.policies[one.uuid].swap_out
        )
        if self._thread is None and self._wanted:
            self._thread = threading.Thread(target=self._run, name="wakes", daemon=True)
            self._thread.start()
        self._ring()

    def settle(self, timeout: float) -> bool:
        """Wait for what is read now."""
        end = time.monotonic() + timeout
        with self._lock:
            threads = list(self._reading.values())
        for one in threads:
            one.join(max(0.0, end - time.monotonic()))
        return not any(one.is_alive() for one in threads)

    def close(self) -> None:
        """Watch nobody any more; what is read now ends with its piece."""
        self._stop.set()
        if self._thread is None:
            self._hang_up()
        self._ring()

    def _ring(self) -> None:
        with self._lock, suppress(BlockingIOError):  # those before were not heard yet
            if self._tell >= 0:
                os.write(self._tell, b"n")

    def _hang_up(self) -> None:
        with self._lock:
            for fd in (self._news, self._tell):
                if fd >= 0:
                    os.close(fd)
            self._news = self._tell = -1

    def _run(self) -> None:
        triggers: dict[int, str] = {}
        poll = select.poll()
        poll.register(self._news, select.POLLIN)
        try:
            while not self._stop.is_set():
                for fd, event in poll.poll():
                    if fd == self._news:
                        os.read(self._news, 4096)
                        self._watch(triggers, poll)
                    elif event & select.POLLPRI:
                        self._begin(triggers[fd])
                    elif fd in triggers:  # the cgroup has gone, and its VM with it
                        self._forget(fd, triggers, poll)
        except Exception:  # a defect here must show, and costs no more than reading ahead
            LOG.exception("nobody is read ahead any more")
        finally:
            for fd in [*triggers]:
                self._forget(fd, triggers, poll)
            self._hang_up()

    def _watch(self, triggers: dict[int, str], poll: select.poll) -> None:
        wanted = self._wanted
        for fd, instance in [*triggers.items()]:
            if instance not in wanted:
                self._forget(fd, triggers, poll)
        for instance in wanted.difference(triggers.values()):
            try:
                fd = self._trigger(instance)
            except KernelInterfaceError as error:
                LOG.debug("%s is not read ahead: %s", instance, error)
                continue
            triggers[fd] = instance
            poll.register(fd, select.POLLPRI)

    def _forget(self, fd: int, triggers: dict[int, str], poll: select.poll) -> None:
        poll.unregister(fd)
        del triggers[fd]
        os.close(fd)

    def _begin(self, instance: str) -> None:
        now = self._clock()
        with self._lock:
            self._rests = {name: until for name, until in self._rests.items() if until > now}
            self._reading = {name: one for name, one in self._reading.items() if one.is_alive()}
            if instance in self._rests or instance in self._reading or len(self._reading) >= AT_ONCE:
                return
            thread = threading.Thread(target=self._ahead, args=(instance,), name="read-ahead", daemon=True)
            self._reading[instance] = thread
            thread.start()

    def _ahead(self, instance: str) -> None:
        try:
            done = self._read(instance, self._stop.is_set)
            LOG.info(
                "process %s woke: read %d MiB ahead%s", instance, done.size >> 20, done.ended and f": {done.ended}"
            )
        except KernelInterfaceError as error:
            LOG.info("process %s woke and is not read ahead: %s", instance, error)
        except Exception:  # a defect here must show
            LOG.exception("reading ahead failed")
        with self._lock:
            self._rests[instance] = self._clock() + REST
