"""Asks many guests without letting a slow one delay the others or the caller.

Threads are started per conversation, as daemons: an executor of concurrent.futures would be joined at interpreter exit
and let one hung guest keep the process alive.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from memhint.backoff import Backoff
from memhint.guest.errors import GuestError
from memhint.guest.reading import GuestReading
from memhint.objects.gap import Gap, GapReason

LOG = logging.getLogger(__name__)
_NOBODY_ANSWERED = (GapReason.UNSUPPORTED, GapReason.TIMEOUT, GapReason.PENDING)


@dataclass(frozen=True, slots=True)
class Task:
    """One guest to talk to: the domain's UUID and the bytes it was given."""

    uuid: str
    assigned: int


@dataclass(frozen=True, slots=True)
class Newest:
    """What is known of a guest: its last good reading, and the gap while the attempts since have failed."""

    reading: GuestReading | None = None
    age_s: float | None = None  # since that reading's conversation began
    gap: Gap | None = None
    failures: int = 0  # in a row
    retry_in_s: float = 0.0  # of the back-off

    @property
    def settled(self) -> bool:
        """Whether the guest has been asked at all, well or not."""
        return self.reading is not None or self.failures > 0


class _Guest:
    """The poller's memory of one guest. Guarded by the poller's lock."""

    __slots__ = ("begun", "failures", "gap", "not_before", "proven", "reading")

    def __init__(self) -> None:
        self.reading: GuestReading | None = None
        self.begun = 0.0
        self.gap: Gap | None = None
        self.failures = 0
        self.not_before = float("-inf")
        self.proven = False  # the last conversation went well


def start_daemon(work: Callable[[], None]) -> None:
    """Run the work in a thread that does not keep the process alive.

    :raises RuntimeError: no thread can be started
    """
    threading.Thread(target=work, name="memhint-guest", daemon=True).start()


class GuestPoller:
    """At most ``workers`` conversations at a time, one per guest, with a back-off per guest. Thread-safe.

    ``read`` holds the conversation and raises GuestError; it must end in bounded time, which the agent's deadline and
    the transport's timeout see to. ``start`` runs a function concurrently. ``clock`` is monotonic, in seconds.

    Guests whose last conversation did not go well, or that had none, never hold the last of several places: however
    many guests hang, those that answer go on being served.
    """

    def __init__(
        self,
        read: Callable[[Task], GuestReading],
        *,
        workers: int = 4,
        clock: Callable[[], float] = time.monotonic,
        start: Callable[[Callable[[], None]], None] = start_daemon,
        backoff: Backoff | None = None,
    ) -> None:
        if workers < 1:
            raise ValueError("there must be one worker at least")
        self._read = read
        self._workers = workers
        self._unproven_max = max(1, workers - 1)
        self._clock = clock
        self._start = start
        self._backoff = backoff or Backoff()
        self._changed = threading.Condition()  # guards everything below
        self._guests: dict[str, _Guest] = {}
        self._waiting: dict[str, Task] = {}  # in the order they came
        self._running: dict[str, bool] = {}  # True: holds a place as unproven
        self._closed = False

    def inherit(self, before: GuestPoller) -> None:
        """Go on from what guests said to an earlier one. Whom that left alone for a while is asked at once."""
        with before._changed:
            said = [(uuid, one) for uuid, one in before._guests.items() if one.reading is not None]
        with self._changed:
            for uuid, one in said:
                guest = self._guests.setdefault(uuid, _Guest())
                guest.reading, guest.begun, guest.proven = one.reading, one.begun, one.proven

    def submit(self, tasks: Iterable[Task]) -> frozenset[str]:
        """Queue the guests that are neither in flight nor in back-off. Never waits for a guest.

        Returns the UUIDs that were taken. A guest that is queued already keeps its place and gets the newer task.
        """
        taken = set()
        ready: list[tuple[Task, _Guest]] = []
        with self._changed:
            if self._closed:
                return frozenset()
            now = self._clock()
            for task in tasks:
                guest = self._guests.setdefault(task.uuid, _Guest())
                if task.uuid in self._running or now < guest.not_before:
                    continue
                self._waiting[task.uuid] = task
                taken.add(task.uuid)
            while (picked := self._pick()) is not None:
                ready.append(picked)
        # Outside the lock: an injected start may run the work at once.
        for task, guest in ready:
            self._launch(task, guest)
        return frozenset(taken)

    def newest(self, uuid: str) -> Newest:
        """What is known of the guest; a gap of reason PENDING where it has never been asked."""
        with self._changed:
            guest = self._guests.get(uuid)
            if guest is None or (guest.reading is None and guest.gap is None):
                return Newest(gap=Gap("guest", GapReason.PENDING, "not asked yet"))
            now = self._clock()
            return Newest(
                reading=guest.reading,
                age_s=None if guest.reading is None else now - guest.begun,
                gap=guest.gap,
                failures=guest.failures,
                retry_in_s=max(0.0, guest.not_before - now),
            )

    def wake(self, uuid: str) -> None:
        """End the guest's back-off: its agent has just connected.

        Only where no answer came. A guest that answers nonsense, or breaks the connection to libvirt, could otherwise
        end its own back-off by connecting again.
        """
        with self._changed:
            guest = self._guests.get(uuid)
            if guest is not None and (guest.gap is None or guest.gap.reason in _NOBODY_ANSWERED):
                guest.failures = 0
                guest.not_before = float("-inf")

    def retain(self, present: Iterable[str]) -> None:
        """Forget every guest but these. What a forgotten guest still says is thrown away."""
        keep = frozenset(present)
        with self._changed:
            self._guests = {uuid: guest for uuid, guest in self._guests.items() if uuid in keep}
            self._waiting = {uuid: task for uuid, task in self._waiting.items() if uuid in keep}

    def close(self, timeout_s: float = 5.0) -> bool:
        """Start nothing more and wait for what is in flight, for at most ``timeout_s`` seconds.

        Returns whether everything has ended; what has not is left to die with the process.
        """
        with self._changed:
            self._closed = True
            self._waiting.clear()
            return self._changed.wait_for(lambda: not self._running, timeout_s)

    def _pick(self) -> tuple[Task, _Guest] | None:
        """Take the next guest that may have a place and give it the place. Needs the lock."""
        if len(self._running) >= self._workers:
            return None
        unproven = sum(self._running.values())
        # First come, first served among those that may: any preference would starve the others on a full host.
        for uuid in self._waiting:
            guest = self._guests[uuid]
            if guest.proven or unproven < self._unproven_max:
                self._running[uuid] = not guest.proven
                return self._waiting.pop(uuid), guest
        return None

    def _launch(self, task: Task, guest: _Guest) -> None:
        try:
            self._start(lambda: self._work(task, guest))
        except RuntimeError as error:
            LOG.error("no thread for a guest conversation: %s", error)
            gap = Gap("guest", GapReason.PENDING, f"no thread: {error}")
            with self._changed:
                self._settle(task, guest, self._clock(), gap)

    def _work(self, task: Task, guest: _Guest) -> None:
        """Hold one conversation after the other as long as this place has one to hold."""
        picked: tuple[Task, _Guest] | None = (task, guest)
        while picked is not None:
            task, guest = picked
            with self._changed:
                begun = self._clock()
            try:
                outcome = self._converse(task)
            except BaseException:  # this thread ends here, so it takes no further guest
                with self._changed:
                    self._settle(task, guest, begun, Gap("guest", GapReason.UNREADABLE, "cut off"))
                raise
            with self._changed:
                self._settle(task, guest, begun, outcome)
                picked = None if self._closed else self._pick()

    def _converse(self, task: Task) -> GuestReading | Gap:
        try:
            return self._read(task)
        except GuestError as error:
            return error.gap("guest")
        except Exception as error:  # a defect in one conversation must not cost the place it holds
            LOG.exception("the conversation with guest %s failed", task.uuid)
            return Gap("guest", GapReason.UNREADABLE, f"{type(error).__name__}")

    def _settle(self, task: Task, guest: _Guest, begun: float, outcome: GuestReading | Gap) -> None:
        """Note the outcome and give the place back. Needs the lock."""
        del self._running[task.uuid]
        if isinstance(outcome, Gap):
            guest.gap = outcome
            guest.failures += 1
            guest.not_before = self._clock() + self._backoff.pause_s(guest.failures)
            guest.proven = False
        else:
            guest.reading = outcome
            guest.begun = begun
            guest.gap = None
            guest.failures = 0
            guest.not_before = float("-inf")
            guest.proven = True
        self._changed.notify_all()
