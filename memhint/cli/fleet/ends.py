"""What the API's errors mean to a person and to the shell."""

from __future__ import annotations

from memhint.cli.exits import CliError, Exit, unforeseen
from memhint.client.errors import (
    ApiError,
    BadAnswer,
    BadRequest,
    ClientError,
    Conflict,
    Forbidden,
    NotFound,
    SettingsError,
    TooSlow,
    Unauthenticated,
    Unreachable,
)
from memhint.client.find import Ambiguous, NoSuchVm
from memhint.conf.errors import ConfigError

_EXITS: tuple[tuple[type[Exception], Exit], ...] = (
    (Unauthenticated, Exit.DENIED),
    (Forbidden, Exit.DENIED),
    (NotFound, Exit.NO_DOMAIN),
    (NoSuchVm, Exit.NO_DOMAIN),
    (Conflict, Exit.REFUSED),
    (BadRequest, Exit.USAGE),
    (Ambiguous, Exit.USAGE),
    (SettingsError, Exit.USAGE),
    (ConfigError, Exit.USAGE),
    (ApiError, Exit.AWAY),
    (BadAnswer, Exit.AWAY),
    (Unreachable, Exit.AWAY),
)
_TOKEN = {
    False: "say whose token to show with --token-file, MEMHINT_TOKEN or [client] token_file",
    True: "log in, or see --os-token",
}
_SLOW = {False: "; [client] deadline allows more", True: ""}
_ADDRESS = {
    False: "is memhint api running there? Name another address with --api, MEMHINT_API or [client] url",
    True: "see the endpoints of the service memhint in the catalogue, or --os-endpoint",
}


def exit_of(error: Exception) -> Exit:
    """The exit code of any error."""
    if isinstance(error, CliError):
        return error.code
    return next((code for kind, code in _EXITS if isinstance(error, kind)), Exit.FAILED)


def line_of(error: Exception, *, openstack: bool) -> str:
    """One line for a person, with what to do next.

    :param openstack: whether the command was given to OpenStackClient
    """
    text = " ".join(str(error).split())
    if isinstance(error, Unauthenticated):
        return f"{text}; {_TOKEN[openstack]}"
    if isinstance(error, TooSlow):
        return f"{text}{_SLOW[openstack]}"
    if isinstance(error, Unreachable):
        return f"the API cannot be reached: {text}; {_ADDRESS[openstack]}"
    if isinstance(error, (CliError, ClientError, ConfigError)):
        return text
    return unforeseen(error)
