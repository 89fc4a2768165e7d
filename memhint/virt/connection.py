"""One connection to one libvirtd: opened when needed, watched while open, opened again after a loss."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import libvirt

from memhint.virt.errors import DomainGone, LibvirtCallFailed, LibvirtUnavailable, VirtError
from memhint.virt.events import start_event_loop

LOG = logging.getLogger(__name__)
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 3
CLOSE_S = 5.0


class DomainEvent(StrEnum):
    """What a libvirt event means to memhint."""

    LIFECYCLE = "lifecycle"  # defined, stopped, undefined, …
    STARTED = "started"  # its QEMU is new, also where it is restored, or comes from another host
    PLUGGED = "plugged"  # it has one more device, which may be memory
    DEFINITION = "definition"  # metadata changed, or a device went: the XML is another
    AGENT = "agent"  # the guest agent came or went
    CONNECTED = "connected"  # the connection itself is new: anything may have changed


EVENTS = {
    libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: DomainEvent.LIFECYCLE,
    libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE: DomainEvent.DEFINITION,
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED: DomainEvent.PLUGGED,
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED: DomainEvent.DEFINITION,
    libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE: DomainEvent.AGENT,
    libvirt.VIR_DOMAIN_EVENT_ID_REBOOT: DomainEvent.AGENT,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ``uuid`` is empty where it concerns every domain."""

    kind: DomainEvent
    uuid: str


class _Held:
    """An open connection, and what libvirt calls back on it."""

    def __init__(self, connection: libvirt.virConnect) -> None:
        self.connection = connection
        self.lost = threading.Event()
        self._events: list[int] = []

    def watch(self, on_close: Callable[[int], None], handlers: Mapping[int, Callable[..., None]]) -> None:
        """Have libvirt tell of the loss of the connection, and of events by their numbers.

        :raises libvirt.libvirtError: when it does not
        """
        self.connection.registerCloseCallback(lambda _connection, reason, _opaque: on_close(reason), None)
        self.connection.setKeepAlive(KEEPALIVE_S, KEEPALIVE_COUNT)
        for number, handler in handlers.items():
            self._events.append(self.connection.domainEventRegisterAny(None, number, handler, None))

    def leave(self) -> threading.Thread:
        """Let go of it on a thread of its own, for libvirtd may be asked, and hang.

        A connection that still calls back is never closed, and neither is its socket. It is not closed by name: a call
        that hangs on it would be left without it. Whoever lets go of it last closes it.
        """
        thread = threading.Thread(target=self._leave, name="libvirt-leave", daemon=True)
        thread.start()
        return thread

    def _leave(self) -> None:
        for number in self._events:
            with suppress(libvirt.libvirtError):  # of a libvirtd that is gone; it is forgotten on this side
                self.connection.domainEventDeregisterAny(number)
        with suppress(libvirt.libvirtError):
            self.connection.unregisterCloseCallback()


class Connection:
    """A connection that survives its libvirtd. Thread safe; libvirt itself multiplexes the calls of several threads."""

    def __init__(self, uri: str, listener: Callable[[Event], None] | None = None) -> None:
        """:param listener: called on libvirt's event thread; must not block and must not call libvirt."""
        self.uri = uri
        self._listener = listener
        self._opening = threading.Lock()  # held while libvirtd is asked, which may hang
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._closes = 0

    def get(self) -> libvirt.virConnect:
        """The open connection; once this one is closed for good, another one for each who asks.

        :raises LibvirtUnavailable: when none can be had; the next call tries again
        """
        with self._opening:
            closes = self._closes
            held = self._held
            if held is not None and not held.lost.is_set():
                return held.connection
            held = None  # an error of what follows would keep it
            self._drop()
            start_event_loop()
            if closes:
                # Somebody goes on all the same, as a pass does over a reload. Nobody would let go of one that is kept
                # here: it is his alone, and closed as he lets go of it, for nothing calls back on it.
                return self._connect()
            held = self._open()
            with self._lock:
                closed = self._closes != closes
                if not closed:
                    self._held = held
            if closed:
                held.leave()
                raise LibvirtUnavailable(f"{self.uri}: it was closed meanwhile")
            connection = held.connection
        LOG.info("connected to %s", self.uri)
        self._tell(Event(DomainEvent.CONNECTED, ""))
        return connection

    def abandon(self) -> None:
        """Leave the open connection to a call that hangs on it; the next user gets a new one."""
        held = self._held
        if held is not None:
            held.lost.set()

    def close(self) -> None:
        """Close for good. Waits some seconds for libvirtd at most, and not for somebody who is just connecting."""
        leaving = self._drop(closing=True)
        if leaving is not None:
            leaving.join(CLOSE_S)

    def _connect(self) -> libvirt.virConnect:
        try:
            return libvirt.open(self.uri)
        except libvirt.libvirtError as error:
            raise LibvirtUnavailable(
                f"{self.uri}: {error.get_error_message()}; is libvirtd running, and may this user connect?"
            ) from error

    def _open(self) -> _Held:
        held = _Held(self._connect())
        try:
            handlers = {number: self._handler(kind) for number, kind in EVENTS.items()} if self._listener else {}
            held.watch(partial(self._on_close, held.lost), handlers)
        except libvirt.libvirtError as error:
            held.leave()
            raise LibvirtUnavailable(f"{self.uri}: {error.get_error_message()}") from error
        return held

    def _drop(self, *, closing: bool = False) -> threading.Thread | None:
        with self._lock:
            self._closes += closing
            held, self._held = self._held, None
        if held is None:
            return None
        if closing:
            held.lost.set()
        return held.leave()

    def _handler(self, kind: DomainEvent) -> Callable[..., None]:
        def handle(_connection: libvirt.virConnect, domain: libvirt.virDomain, *rest: object) -> None:
            started = kind is DomainEvent.LIFECYCLE and rest[0] == libvirt.VIR_DOMAIN_EVENT_STARTED
            self._tell(Event(DomainEvent.STARTED if started else kind, domain.UUIDString()))

        return handle

    def _on_close(self, lost: threading.Event, reason: int) -> None:
        LOG.warning("lost the connection to %s (reason %d); it is opened again when next needed", self.uri, reason)
        lost.set()

    def _tell(self, event: Event) -> None:
        if self._listener is not None:
            self._listener(event)


def translated(error: libvirt.libvirtError) -> VirtError:
    """libvirt's error as one of ours."""
    code = error.get_error_code()
    message = error.get_error_message() or str(error)
    if code == libvirt.VIR_ERR_NO_DOMAIN:
        return DomainGone(message)
    if code in (libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_INVALID_CONN):
        return LibvirtUnavailable(message)
    return LibvirtCallFailed(message)
