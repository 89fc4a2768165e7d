"""What errors of this host's store and kernel mean to the shell."""

from __future__ import annotations

from memhint.cli.exits import CliError, Exit, unforeseen
from memhint.conf.errors import ConfigError
from memhint.kernel.errors import KernelInterfaceError
from memhint.objects.policy import PolicyError
from memhint.openstack.errors import OpenStackError
from memhint.store.errors import StoreError, StoreMissing

__all__ = ["CliError", "Exit", "exit_of", "line_of"]

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
    """One line for a person. An unforeseen error says so, with its kind."""
    text = " ".join(str(error).split())
    if isinstance(error, _FORESEEN):
        return text
    return unforeseen(error)
