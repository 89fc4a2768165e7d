"""What a guest's agent can do, and which kernel and which boot of it answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from memhint.guest import fields, files
from memhint.guest.errors import (
    GuestAnswerMalformed,
    GuestCommandBlocked,
    GuestCommandFailed,
    GuestCommandMissing,
    GuestError,
    GuestSilent,
    blocked,
)
from memhint.guest.protocol import GuestAgent
from memhint.objects.gap import Gap

T = TypeVar("T")

_COMMANDS_MAX = 512
_NAME_MAX = 64
_RELEASE_MAX = 128
_BOOT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OSINFO = "guest-get-osinfo"
_FREEZE_STATUS = "guest-fsfreeze-status"  # the agent answers it in any state
WINDOWS = "mswindows"  # what guest-get-osinfo calls it
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
    blocked: frozenset[str] = frozenset()  # known and disabled; of what memhint asks for, by configuration only

    def lacks(self, commands: frozenset[str]) -> frozenset[str]:
        """Those of the commands that this agent does not have or blocks."""
        return commands - self.commands

    def refusal(self, commands: frozenset[str]) -> GuestCommandMissing | None:
        """Why the agent cannot be asked all of these commands; None where it can."""
        lacking = self.lacks(commands)
        unknown, known = lacking - self.blocked, lacking & self.blocked
        if unknown:
            words = f"the guest agent has no {', '.join(sorted(unknown))}"
            return GuestCommandMissing(f"{words}; {blocked(known)}" if known else words)
        return GuestCommandBlocked(blocked(known)) if known else None


def read_capabilities(agent: GuestAgent) -> Capabilities:
    """Ask the agent what it can do. Without guest-info there is nothing to go on; the rest may be gaps.

    :raises GuestSilent: no answer came, at any of the calls
    :raises GuestCommandFailed: the guest's file systems are frozen, and what it can do is not to be seen
    :raises GuestError: guest-info was refused or answered with nonsense
    """
    answer = agent.call("guest-info")
    version = fields.text(answer, "version", max_len=_NAME_MAX)
    listed = fields.list_of(answer, "supported_commands", _command, max_items=_COMMANDS_MAX)
    commands = frozenset(name for name, enabled in listed if enabled)
    disabled = frozenset(name for name, enabled in listed if not enabled)
    if _OSINFO in disabled and _FREEZE_STATUS in commands and agent.call(_FREEZE_STATUS) == "frozen":
        # Nearly everything is disabled until it thaws: that is no configuration.
        raise GuestCommandFailed("the guest's file systems are frozen")
    found = Capabilities(version, commands, blocked=disabled)
    gaps: list[Gap] = []

    def attempt(what: str, needs: frozenset[str], read: Callable[[GuestAgent], T]) -> T | None:
        try:
            missing = found.refusal(needs)
            if missing is not None:
                raise missing
            return read(agent)
        except GuestSilent:
            raise
        except GuestError as error:
            gaps.append(error.gap(what))
            return None

    system = attempt("release", frozenset({_OSINFO}), _system)
    boot_id = attempt("boot_id", files.READ_COMMANDS, read_boot_id)
    release, name = system or (None, None)
    return replace(found, release=release, boot_id=boot_id, gaps=tuple(gaps), os=name)


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
    answer = agent.call(_OSINFO)
    release = fields.text(answer, "kernel-release", max_len=_RELEASE_MAX)
    named = isinstance(answer, dict) and "id" in answer
    return release, fields.text(answer, "id", max_len=_NAME_MAX) if named else None


def _command(item: object) -> tuple[str, bool]:
    return fields.text(item, "name", max_len=_NAME_MAX), fields.boolean(item, "enabled")
