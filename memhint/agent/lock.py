"""One agent per host: it holds a name in the kernel that goes when the process ends, however it ends.

Anybody on the host may take such a name. What another user than root and the agent's own has taken is no agent, and
does not keep one from running: it takes a spare name, which nobody can foresee.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import socket

from memhint.kernel.socket_owners import socket_owners

LOG = logging.getLogger(__name__)
_NAME = "memhint-agent"
_LONGEST = 70  # bytes of a host's name within one of 107


class AlreadyRunning(Exception):
    """Another agent serves this host."""


class HostLock:
    """Held from ``take`` to the end of the process, or to ``release``."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._socket: socket.socket | None = None

    def take(self) -> None:
        """Take it.

        :raises AlreadyRunning: when another process has it
        """
        taken = AlreadyRunning(f"another memhint agent runs for host {self._host}: stop it first")
        if is_held(self._host):
            raise taken
        name = _usual(self._host)
        if self._bind(name):
            return
        uid = _holders(self._host).get(name)
        if _may_be_agents(uid):
            raise taken
        LOG.warning("user %s has taken the name of this host's agent, @%s: it has another one", uid, name[1:])
        if not self._bind(_spare(self._host)):
            raise taken

    def release(self) -> None:
        """Let go of it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _bind(self, name: str) -> bool:
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.bind(name)
        except OSError:
            held.close()
            return False
        self._socket = held
        return True


def is_held(host: str) -> bool:
    """Whether an agent of this host runs, as far as can be told: looking takes nothing, as trying to have it would."""
    return any(_may_be_agents(uid) for uid in _holders(host).values())


def _usual(host: str) -> str:
    return f"\0{_NAME}/{_short(host)}"


def _spare(host: str) -> str:
    return f"\0{_NAME}:{secrets.token_hex(8)}/{_short(host)}"


def _short(host: str) -> str:
    """Of a host's name what fits into that of a socket."""
    name = os.fsencode(host)
    return host if len(name) <= _LONGEST else hashlib.sha256(name).hexdigest()


def _holders(host: str) -> dict[str, int | None]:
    """Who has taken names of this host's agent, as far as the kernel tells; None: it does not say who."""
    try:
        owners = socket_owners()
    except OSError:
        return {}
    usual, spares, short = _usual(host), f"\0{_NAME}:", _short(host)
    named = {os.fsdecode(name): uid for name, uid in owners.items()}
    return {
        name: uid
        for name, uid in named.items()
        if name == usual or (name.startswith(spares) and name.partition("/")[2] == short)
    }


def _may_be_agents(uid: int | None) -> bool:
    """Whether what a user has may be an agent's: so it is taken where the kernel does not tell whose it is."""
    return uid is None or uid in {0, os.geteuid()}
