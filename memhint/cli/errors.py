"""How a command ends: the documented exit codes, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum

from memhint.conf.errors import ConfigError
from memhint.kernel.errors import KernelInterfaceError
from memhint.objects.policy import PolicyError
from memhint.openstack.errors import OpenStackError
from memhint.store.errors import StoreError, StoreMissing


class Exit(IntEnum):
    """What the shell sees."""

    DONE = 0
    FAILED = 1
    USAGE = 2  # or a wrong configuration
    NO_DOMAIN = 3
    NO_REPORT = 4  # no fresh one: the agent is not running
    REFUSED = 5  # a rule forbids it, it is not supported, or somebody else owns it


class CliError(Exception):
    """The end of a command: one line with what to do next, and an exit code."""

    def __init__(self, code: Exit, text: str) -> None:
        self.code = code
        super().__init__(text)


_FORESEEN = (CliError, ConfigError, PolicyError, StoreError, KernelInterfaceError, OpenStackError)


def exit_of(error: Exception) -> Exit:
    """The exit code of any error."""
    if isinstance(error, CliError):
        return error.code
    if isinstance(error, (ConfigError, PolicyError)):
        return Exit.USAGE
    if isinstance(error, StoreMissing):
        return Exit.NO_REPORT
    return Exit.FAILED


def line_of(error: Exception) -> str:
    """One line for a person. An error that nobody foresaw says so, with its kind."""
    text = " ".join(str(error).split())
    if isinstance(error, _FORESEEN):
        return text
    return f"unexpected {type(error).__name__}: {text}; run it again with --debug and report what it prints"
