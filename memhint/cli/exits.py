"""How a command ends: the documented exit codes, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the shell sees."""

    DONE = 0
    FAILED = 1
    USAGE = 2  # or a wrong configuration
    NO_DOMAIN = 3
    NO_REPORT = 4  # no fresh one: the agent is not running
    REFUSED = 5  # a rule forbids it, it is not supported, or somebody else owns it
    AWAY = 6  # the API gave no answer, or none that helps
    DENIED = 7  # the API does not know the caller, or does not let it


class CliError(Exception):
    """The end of a command: one line with what to do next, and an exit code."""

    def __init__(self, code: Exit, text: str) -> None:
        self.code = code
        super().__init__(text)
