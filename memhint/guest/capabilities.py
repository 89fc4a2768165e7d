"""What a guest's agent can do, and which kernel and which boot of it answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from memhint.guest import fields, files
from memhint.guest.errors import GuestAnswerMalformed, GuestCommandMissing, GuestError, GuestSilent
from memhint.guest.protocol import GuestAgent
from memhint.objects.gap import Gap

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

    def attempt(what: str, needs: frozenset[str], read: Callable[[GuestAgent], str]) -> str | None:
        try:
            if needs - commands:
                raise GuestCommandMissing(f"the agent has no {', '.join(sorted(needs - commands))}")
            return read(agent)
        except GuestSilent:
            raise
        except GuestError as error:
            gaps.append(error.gap(what))
            return None

    release = attempt("release", frozenset({"guest-get-osinfo"}), _release)
    boot_id = attempt("boot_id", files.READ_COMMANDS, read_boot_id)
    return Capabilities(version, commands, release, boot_id, tuple(gaps))


def read_boot_id(agent: GuestAgent) -> str:
    """The UUID that Linux makes at every boot.

    :raises GuestError: it cannot be read, or is no UUID
    """
    boot_id = files.read_file(agent, _BOOT_ID_PATH, limit=64).strip()
    if _BOOT_ID.fullmatch(boot_id) is None:
        raise GuestAnswerMalformed("not a UUID", "boot_id")
    return boot_id


def _release(agent: GuestAgent) -> str:
    return fields.text(agent.call("guest-get-osinfo"), "kernel-release", max_len=_RELEASE_MAX)


def _command(item: object) -> tuple[str, bool]:
    return fields.text(item, "name", max_len=_NAME_MAX), fields.boolean(item, "enabled")
