"""What a guest's agent can do, and which kernel and which boot of it answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from memhint.guest import fields, files
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandMissing, GuestError, GuestSilent
from memhint.guest.protocol import GuestAgent
from memhint.objects.gap import Gap

T = TypeVar("T")

_COMMANDS_MAX = 512
_NAME_MAX = 64
_RELEASE_MAX = 128
_BOOT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BOOT_ID_PATH = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The agent and the guest behind it. They hold until the agent reconnects or the boot id changes."""

    version: str
    commands: frozenset[str]  # known and enabled
    release: str | None = None  # the kernel's
    boot_id: str | None = None
    gaps: tuple[Gap, ...] = ()
    os: str | None = None  # the system's short name: "debian", "mswindows"

    def lacks(self, commands: frozenset[str]) -> frozenset[str]:
        """Those of the commands that this agent does not have or blocks."""
        return commands - self.commands


def read_capabilities(agent: GuestAgent) -> Capabilities:
    """Ask the agent what it can do. Without guest-info there is nothing to go on; the rest may be gaps.

    :raises GuestSilent: nobody answered, at any of the calls
    :raises GuestError: guest-info was refused or answered with nonsense
    """
    answer = agent.call("guest-info")
    version = fields.text(answer, "version", max_len=_NAME_MAX)
    listed = fields.list_of(answer, "supported_commands", _command, max_items=_COMMANDS_MAX)
    commands = frozenset(name for name, enabled in listed if enabled)
    gaps: list[Gap] = []

    def attempt(what: str, needs: frozenset[str], read: Callable[[GuestAgent], T]) -> T | None:
        try:
            if needs - commands:
                raise GuestCommandMissing(f"the agent has no {', '.join(sorted(needs - commands))}")
            return read(agent)
        except GuestSilent:
            raise
        except GuestError as error:
            gaps.append(error.gap(what))
            return None

    system = attempt("release", frozenset({"guest-get-osinfo"}), _system)
    boot_id = attempt("boot_id", files.READ_COMMANDS, read_boot_id)
    release, name = system or (None, None)
    return Capabilities(version, commands, release, boot_id, tuple(gaps), name)


def read_boot_id(agent: GuestAgent) -> str:
    """The UUID that Linux makes at every boot.

    :raises GuestError: it cannot be read, or is no UUID
    """
    boot_id = files.read_file(agent, _BOOT_ID_PATH, limit=64).strip()
    if _BOOT_ID.fullmatch(boot_id) is None:
        raise GuestAnswerMalformed("not a UUID", "boot_id")
    return boot_id


def _system(agent: GuestAgent) -> tuple[str, str | None]:
    """The kernel's release and the system's short name, which an agent may leave out."""
    answer = agent.call("guest-get-osinfo")
    release = fields.text(answer, "kernel-release", max_len=_RELEASE_MAX)
    named = isinstance(answer, dict) and "id" in answer
    return release, fields.text(answer, "id", max_len=_NAME_MAX) if named else None


def _command(item: object) -> tuple[str, bool]:
    return fields.text(item, "name", max_len=_NAME_MAX), fields.boolean(item, "enabled")
