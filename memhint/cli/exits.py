"""How a command ends: the documented exit codes, and the error that carries one."""

from __future__ import annotations

import errno
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


def is_full(error: Exception) -> bool:
    """Whether there was no room for what was to be written."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def unforeseen(error: Exception) -> str:
    """One line for a person about an error that no command expects: a full disk, or else a fault of memhint."""
    if isinstance(error, OSError) and is_full(error):
        return f"this cannot be written: {error.strerror}; make room, and run it again"
    text = " ".join(str(error).split())
    return f"unexpected {type(error).__name__}: {text}; run it again with --debug and report what it prints"
