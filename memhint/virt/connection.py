"""One connection to one libvirtd: opened when needed, watched while open, opened again after a loss."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import libvirt

from memhint.virt.errors import DomainGone, LibvirtCallFailed, LibvirtUnavailable, VirtError
from memhint.virt.events import start_event_loop

LOG = logging.getLogger(__name__)
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 3


class DomainEvent(StrEnum):
    """What a libvirt event means to memhint."""

    LIFECYCLE = "lifecycle"  # defined, stopped, undefined, …
    STARTED = "started"  # its QEMU is new, also where it is restored, or comes from another host
    PLUGGED = "plugged"  # it has one more device, which may be memory
    DEFINITION = "definition"  # metadata changed, or a device went: the XML is another
    AGENT = "agent"  # the guest agent came or went
    CONNECTED = "connected"  # the connection itself is new: anything may have changed


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ``uuid`` is empty where it concerns every domain."""

    kind: DomainEvent
    uuid: str


class Connection:
    """A connection that survives its libvirtd. Thread safe; libvirt itself multiplexes the calls of several threads."""

    def __init__(self, uri: str, listener: Callable[[Event], None] | None = None) -> None:
        """:param listener: called on libvirt's event thread; must not block and must not call libvirt."""
        self.uri = uri
        self._listener = listener
        self._lock = threading.Lock()
        self._connection: libvirt.virConnect | None = None
        self._lost = threading.Event()

    def get(self) -> libvirt.virConnect:
        """The open connection.

        :raises LibvirtUnavailable: when none can be had; the next call tries again
        """
        with self._lock:
            if self._connection is not None and not self._lost.is_set():
                return self._connection
            self._drop()
            start_event_loop()
            try:
                connection = libvirt.open(self.uri)
            except libvirt.libvirtError as error:
                raise LibvirtUnavailable(
                    f"{self.uri}: {error.get_error_message()}; is libvirtd running, and may this user connect?"
                ) from error
            self._lost = lost = threading.Event()
            try:
                self._watch(connection, lost)
            except libvirt.libvirtError as error:
                raise LibvirtUnavailable(f"{self.uri}: {error.get_error_message()}") from error
            self._connection = connection
        LOG.info("connected to %s", self.uri)
        self._tell(Event(DomainEvent.CONNECTED, ""))
        return connection

    def abandon(self) -> None:
        """Leave the open connection to a call that hangs on it; the next user gets a new one."""
        self._lost.set()

    def close(self) -> None:
        """Close for good."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            try:
                if not self._lost.is_set():
                    self._connection.unregisterCloseCallback()  # this loss is meant
                self._connection.close()
            except libvirt.libvirtError:
                LOG.debug("closing a dead connection", exc_info=True)
            self._connection = None

    def _watch(self, connection: libvirt.virConnect, lost: threading.Event) -> None:
        connection.registerCloseCallback(lambda _connection, reason, _opaque: self._on_close(lost, reason), None)
        connection.setKeepAlive(KEEPALIVE_S, KEEPALIVE_COUNT)
        if self._listener is None:
            return
        for event_id, kind in (
            (libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, DomainEvent.LIFECYCLE),
            (libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE, DomainEvent.DEFINITION),
            (libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED, DomainEvent.PLUGGED),
            (libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, DomainEvent.DEFINITION),
            (libvirt.VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, DomainEvent.AGENT),
            (libvirt.VIR_DOMAIN_EVENT_ID_REBOOT, DomainEvent.AGENT),
        ):
            connection.domainEventRegisterAny(None, event_id, self._handler(kind), None)

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
