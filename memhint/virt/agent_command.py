"""The guest agent through libvirt: the transport that the guest protocol is handed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import libvirt
import libvirt_qemu

from memhint.guest.errors import GuestAgentAbsent, GuestConnectionLost, GuestError, GuestTimeout
from memhint.guest.protocol import AgentTransport, refusal
from memhint.virt.connection import Connection
from memhint.virt.domain_xml import agent_disconnected
from memhint.virt.errors import LibvirtUnavailable

KEEP = 4  # idle connections


class AgentConnections:
    """Connections for conversations with guests, one for each that goes on, and some that wait for the next.

    Calls of one connection are not independent: an answer can wait behind the call of a guest that hangs (measured with
    libvirt 9.0: 5 s where another connection took 4 ms).
    """

    def __init__(self, uri: str, keep: int = KEEP) -> None:
        """:param keep: so many wait for the next conversation; each takes two descriptors, and a client of libvirtd"""
        self._uri = uri
        self._keep = keep
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False

    @contextmanager
    def conversation(self, uuid: str) -> Iterator[AgentTransport]:
        """The way to one guest's agent, with a connection of its own meanwhile."""
        with self._lock:
            connection = self._idle.pop() if self._idle else Connection(self._uri)
        try:
            yield LibvirtAgentTransport(connection, uuid)
        finally:
            with self._lock:
                kept = not self._closed and len(self._idle) < self._keep
                if kept:
                    self._idle.append(connection)
            if not kept:
                connection.close()

    def close(self) -> None:
        """Close those that are idle now, and the others as they become so."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for connection in idle:
            connection.close()


class LibvirtAgentTransport:
    """One guest's agent. A call holds a worker of libvirtd for up to ``timeout`` seconds: keep few in flight."""

    def __init__(self, connection: Connection, uuid: str) -> None:
        self._connection = connection
        self._uuid = uuid

    def __call__(self, request: str, timeout: int) -> str:
        """The raw answer.

        :param timeout: seconds
        :raises GuestAgentAbsent: no agent, no VM, or no libvirt
        :raises GuestTimeout: it did not answer in time
        :raises GuestError: the agent's own refusal, as far as libvirt hands it on
        """
        domain = None
        try:
            domain = self._connection.get().lookupByUUIDString(self._uuid)
            return str(libvirt_qemu.qemuAgentCommand(domain, request, timeout, 0))
        except LibvirtUnavailable as error:
            raise GuestConnectionLost(error.detail) from error
        except libvirt.libvirtError as error:
            raise _translated(error, domain) from error


_AGENT_COMMAND_TIMEOUT = 112  # VIR_ERR_AGENT_COMMAND_TIMEOUT of libvirt 11.2, whatever the bindings know


def _translated(error: libvirt.libvirtError, domain: libvirt.virDomain | None) -> GuestError:
    code = error.get_error_code()
    message = error.get_error_message() or str(error)
    if code == libvirt.VIR_ERR_AGENT_UNRESPONSIVE:
        # libvirt has one code for "did not answer" and for "is not connected". Its words are in the host's language.
        away = "not connected" in message or (domain is not None and _disconnected(domain))
        return GuestAgentAbsent(message) if away else GuestTimeout(message)
    if code in (
        libvirt.VIR_ERR_NO_DOMAIN,
        libvirt.VIR_ERR_OPERATION_INVALID,
        libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
        libvirt.VIR_ERR_CONFIG_UNSUPPORTED,
        libvirt.VIR_ERR_AGENT_UNSYNCED,
    ):
        return GuestAgentAbsent(message)
    if code in (libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_RPC) or "client socket is closed" in message:
        return GuestConnectionLost(message)
    if code in (libvirt.VIR_ERR_OPERATION_TIMEOUT, _AGENT_COMMAND_TIMEOUT):
        return GuestTimeout(message)
    # libvirt keeps the agent's own error class to itself; its words are all there is.
    return refusal("guest agent", "", message)


def _disconnected(domain: libvirt.virDomain) -> bool:
    """Whether nobody in the guest has the agent's channel open, by which libvirt itself goes."""
    try:
        return agent_disconnected(domain.XMLDesc())
    except libvirt.libvirtError:
        return False
