"""Server-sent events: one thread per process asks the store what changed, and tells everybody who listens."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memhint.store.errors import ChangesExpired, StoreError

LOG = logging.getLogger(__name__)

EVERY = 2.0  # seconds between two looks
KEEP_ALIVE = 15.0  # seconds of silence after which a comment is sent: a proxy would hang up
WAITING_MOST = 16  # looks whose changes may wait for one client; who waits for the same shares them
EVENTS_MOST = 200  # events of one look
LOOKS_MOST = 16  # of a new listener, for what it missed; whoever missed more begins anew


class Crowded(Exception):
    """As many listen as may, of all clients or of this one."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one look found, as plain data. ``token`` is where it ends."""

    token: str
    hosts: tuple[Mapping[str, Any], ...]
    deleted: tuple[str, ...]
    events: tuple[Mapping[str, Any], ...] = ()


class Listener:
    """One client. One that does not keep up is dropped; it reconnects with the last id that it saw."""

    def __init__(self, hub: Hub, client: str, may: Callable[[], bool], there: Callable[[], bool]) -> None:
        """:param may: whether it still may listen
        :param there: whether it has not hung up
        """
        self._hub = hub
        self.client = client
        self.may = may
        self.there = there
        self._waiting: deque[bytes] = deque()
        self._early: deque[bytes] | None = deque()  # what is told before it has what it missed; None from then on
        self._changed = threading.Condition()
        self._ended = False

    def tell(self, messages: bytes) -> None:
        """Let it have what a look found, after what it missed."""
        with self._changed:
            if self._ended:
                return
            queue = self._waiting if self._early is None else self._early
            if len(queue) >= WAITING_MOST:
                self._ended = True
                queue.clear()
                LOG.info("a listener of the stream was too slow and is dropped")
            else:
                queue.append(messages)
            self._changed.notify()

    def look_begins(self) -> None:
        """A look at what it missed begins, which finds all that was told until now: told later, that would be older."""
        with self._changed:
            if self._early is not None:
                self._early.clear()

    def begin(self, missed: bytes) -> None:
        """Let it have what it missed, then what was told meanwhile."""
        with self._changed:
            early, self._early = self._early or (), None
            if not self._ended:
                self._waiting.extend((missed, *early))
            self._changed.notify()

    def end(self) -> None:
        """No more will come."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def cut(self) -> None:
        """No more will come, nor what waits."""
        with self._changed:
            self._waiting.clear()
            self._ended = True
            self._changed.notify()

    def messages(self, keep_alive: float = KEEP_ALIVE) -> Messages:
        """What to send, until it ends."""
        return Messages(self, self._hub, keep_alive)

    def take(self, patience: float) -> bytes | None:
        """What waits, or a comment where nothing came for ``patience`` seconds; None at the end."""
        with self._changed:
            if not self._waiting and not self._ended:
                self._changed.wait(patience)
            if self._waiting:
                return self._waiting.popleft()
            return None if self._ended else b": still here\n\n"


class Messages(Iterator[bytes]):
    """What goes out to one client. A server closes it when the client has gone, also before it took anything.

    No generator: closing one that has not begun does not run what it would do at its end.
    """

    def __init__(self, listener: Listener, hub: Hub, keep_alive: float) -> None:
        self._listener = listener
        self._hub = hub
        self._keep_alive = keep_alive
        self._begun = False

    def __next__(self) -> bytes:
        if not self._begun:
            self._begun = True
            return b"retry: 3000\n\n"
        found = self._listener.take(self._keep_alive)
        if found is None:
            self.close()
            raise StopIteration
        return found

    def close(self) -> None:
        """Make room for somebody else."""
        self._listener.end()
        self._hub.leave(self._listener)


class Hub:
    """All who listen. Its thread runs while somebody does."""

    def __init__(
        self, look: Callable[[str | None], Change], most: int, every: float = EVERY, each: int | None = None
    ) -> None:
        """:param look: what changed since a token; from None on there is nothing but the token of now.
        :param each: how many of them may be one client's; None: all
        """
        self._look = look
        self.most = most
        self._each = most if each is None else each
        self._every = every
        self._lock = threading.Lock()
        self._listeners: set[Listener] = set()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._wake = threading.Event()
        self._closed = False

    def join(
        self,
        since: str | None,
        client: str = "",
        may: Callable[[], bool] = lambda: True,
        there: Callable[[], bool] = lambda: True,
    ) -> Listener:
        """A new listener, who is told first what changed since the token that it knows.

        :param may: asked before each look whether this client still may listen
        :param there: whether it has not hung up; who has makes room for others at once
        :raises Crowded: when there are as many as may be
        :raises ChangesExpired: when that can no longer be told
        :raises StoreError: when the store fails
        """
        listener = Listener(self, client, may, there)
        self._let_go()
        with self._lock:
            if self._closed or len(self._listeners) >= self.most:
                raise Crowded(f"{self.most} listen already")
            if sum(one.client == client for one in self._listeners) >= self._each:
                raise Crowded(f"{self._each} of yours listen already")
            self._listeners.add(listener)
        try:
            self._start()
            # What comes while this is asked for may be told twice, which does no harm: it is state, not a difference.
            missed = self._missed(since, listener)
        except BaseException:
            self.leave(listener)
            raise
        listener.begin(missed)
        return listener

    def leave(self, listener: Listener) -> None:
        """It has gone."""
        with self._lock:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End every stream."""
        with self._lock:
            self._closed = True
            listeners, thread = tuple(self._listeners), self._thread
        self._wake.set()
        for one in listeners:
            one.end()
        if thread is not None:
            thread.join(10)

    def __len__(self) -> int:
        return len(self._listeners)

    def _start(self) -> None:
        """Have the thread look from a moment on that is before any look of those who join: between the two nothing is
        lost. Others wait for that.
        """
        with self._starting:
            if self._thread is not None:
                return
            token = self._look(None).token
            with self._lock:
                if not self._closed:
                    self._thread = threading.Thread(target=self._run, args=(token,), name="stream", daemon=True)
                    self._thread.start()

    def _missed(self, since: str | None, listener: Listener) -> bytes:
        """All of it: the thread goes on from the end of the log, so nothing may be left."""
        looks: list[Change] = []
        while not looks or len(looks[-1].events) >= EVENTS_MOST:
            if len(looks) >= LOOKS_MOST:
                raise ChangesExpired("too much has happened since: read all of it again")
            listener.look_begins()
            looks.append(self._look(looks[-1].token if looks else since))
        # A token of its own at the end: who is told nothing else has it, too.
        return b"".join(map(messages_of, looks)) + f"id: {looks[-1].token}\n\n".encode()

    def _let_go(self) -> None:
        """Of those who have hung up. A stream where little happens would notice it by its next comment only."""
        with self._lock:
            gone = [one for one in self._listeners if not one.there()]
            self._listeners.difference_update(gone)
        for one in gone:
            one.cut()

    def _ask(self, listener: Listener) -> None:
        """Where it may not listen any more it ends, and makes room at once though its client may take a while."""
        try:
            if listener.may():
                return
            LOG.info("a stream of %s ends: it may not listen any more", listener.client)
        except Exception:
            LOG.exception("a stream of %s ends: whether it may listen cannot be told", listener.client)
        listener.cut()
        self.leave(listener)

    def _next(self, token: str) -> tuple[str, bytes | None]:
        """Where the look after this one begins, and what this one found; None where that can no longer be told."""
        try:
            change = self._look(token)
        except ChangesExpired:
            return self._look(None).token, None
        return change.token, messages_of(change)

    def _run(self, token: str) -> None:
        failing = False
        try:
            while not self._wake.wait(self._every):
                self._let_go()
                with self._lock:
                    if not self._listeners:
                        self._thread = None
                        return
                    listeners = tuple(self._listeners)
                for one in listeners:
                    self._ask(one)
                try:
                    token, messages = self._next(token)
                except StoreError as error:
                    if not failing:
                        LOG.error("the stream waits for the store: %s", error)
                    failing = True
                    continue
                failing = False
                with self._lock:  # who joined meanwhile may have looked before what this look found
                    listeners = tuple(self._listeners)
                for one in listeners:
                    if messages is None:
                        one.end()  # they begin again, as after any loss
                    elif messages:
                        one.tell(messages)
        except BaseException:
            with self._lock:
                self._thread = None
                listeners = tuple(self._listeners)
            for one in listeners:
                one.end()
            raise


def messages_of(change: Change) -> bytes:
    """A change as the stream has it; nothing where nothing changed.

    The token is in the last message alone. It says that all before was told: a client whose connection breaks in the
    middle comes back with an older one, and is told again.
    """
    found: list[tuple[str, object]] = []
    if change.hosts or change.deleted:
        found.append(("hosts", {"hosts": change.hosts, "deleted": change.deleted}))
    found += [("event", one) for one in change.events]
    last = len(found) - 1
    return "".join(
        _message(kind, data, change.token if number == last else None) for number, (kind, data) in enumerate(found)
    ).encode()


def _message(kind: str, data: object, token: str | None) -> str:
    id_line = "" if token is None else f"id: {token}\n"
    return f"{id_line}event: {kind}\ndata: {json.dumps(data, separators=(',', ':'), ensure_ascii=False)}\n\n"
