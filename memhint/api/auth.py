"""Authentication, in one of three ways: static tokens, Keystone, or none on loopback."""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import ip_address
from typing import Protocol, TypedDict

from werkzeug import Request

from memhint.api.context import Context
from memhint.api.errors import Problem, too_many
from memhint.api.tokens import Tokens

KEYSTONE_HOLDS = 300.0  # seconds for which keystonemiddleware, too, believes a token without asking again
KEYSTONE_AWAY = "memhint.keystone_away"  # in the environment of a request whose token nobody could judge
KEYSTONE_WAIT = "memhint.keystone_wait"  # likewise: the seconds until Keystone may be asked for this client again
TOKEN_MOST = 4096  # characters of a token that is looked at
_WAYS_HOME = ("localhost", "localhost.localdomain", "ip6-localhost")


class Authenticator(Protocol):
    """One way. ``challenge`` is what a 401 asks for."""

    challenge: str

    def authenticate(self, request: Request, request_id: str) -> Context:
        """The caller; one who is not known has no roles.

        :raises Problem: 401 where a token is shown that is not known, 503 where that cannot be told now
        """

    def still(self, request: Request, who: Context) -> Callable[[], bool]:
        """How to tell later, of an answer that goes on, whether the caller still is whom it was."""


class LoopbackOnly:
    """`auth = none`: everyone on this host is an admin; all others are refused."""

    challenge = "Bearer"

    def authenticate(self, request: Request, request_id: str) -> Context:
        """An admin.

        :raises Problem: 403 for callers from elsewhere, and for pages of elsewhere in a browser on this host
        """
        if not is_loopback(request.remote_addr or "") or not is_loopback(_host_of(request)):
            # A name that was made to lead here would let any page that the operator looks at ask in his place.
            raise Problem(
                403, "loopback_only", "auth = none serves this host by its loopback addresses only: see [api] auth"
            )
        return Context(name="loopback", known=True, roles=["admin"], system=True, **_ids(request, request_id))

    def still(self, request: Request, who: Context) -> Callable[[], bool]:
        """Always: there is nothing to revoke."""
        return lambda: True


class ByToken:
    """`auth = token`: a file of hashes."""

    challenge = 'Bearer realm="memhint"'

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def authenticate(self, request: Request, request_id: str) -> Context:
        """Whose token it is."""
        token = shown_token(request)
        if token is None:
            return Context(**_ids(request, request_id))
        entry = self._tokens.find(token)
        if entry is None:
            raise Problem(
                401,
                "token.unknown",
                "this token is not known: ask the operator for one (memhint token create)",
                headers={"WWW-Authenticate": self.challenge},
            )
        return Context(
            name=entry.name,
            known=True,
            roles=entry.roles,
            project=entry.project,
            system=entry.project is None,
            **_ids(request, request_id),
        )

    def still(self, request: Request, who: Context) -> Callable[[], bool]:
        """Whether the file still has the token, for the same name, roles and project."""
        token = shown_token(request)
        entry = self._tokens.find(token) if token else None
        return lambda: token is not None and self._tokens.find(token) == entry


class ByKeystone:
    """`auth = keystone`: keystonemiddleware stands in front and has taken away what a caller says of itself."""

    challenge = "Keystone"

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    def authenticate(self, request: Request, request_id: str) -> Context:
        """Whom Keystone says it is."""
        environ = request.environ
        if environ.get(KEYSTONE_AWAY):
            raise Problem(
                503,
                "keystone.away",
                "Keystone does not say now whose token this is: the log of memhint api has the reason",
                headers={"Retry-After": "5"},
            )
        if environ.get(KEYSTONE_WAIT):
            raise too_many("your address shows more new tokens than Keystone is asked for", environ[KEYSTONE_WAIT])
        status = environ.get("HTTP_X_IDENTITY_STATUS")
        if status != "Confirmed":
            if shown_token(request) is not None:
                raise Problem(
                    401,
                    "token.unknown",
                    "Keystone does not accept this token: get a new one",
                    headers={"WWW-Authenticate": self.challenge},
                )
            return Context(**_ids(request, request_id))
        if environ.get("HTTP_X_DOMAIN_ID"):  # who administers a customer's domain does not administer the hosts
            raise Problem(403, "token.domain", "a token of a domain has no say here: get one of a project")
        return Context(
            name=environ.get("HTTP_X_USER_ID", ""),
            known=True,
            roles=[word.strip() for word in environ.get("HTTP_X_ROLES", "").split(",") if word.strip()],
            project=environ.get("HTTP_X_PROJECT_ID") or None,
            system=environ.get("HTTP_OPENSTACK_SYSTEM_SCOPE") == "all",
            **_ids(request, request_id),
        )

    def still(self, request: Request, who: Context) -> Callable[[], bool]:
        """For some minutes. Then the client has to come again, and the middleware looks at its token again."""
        until = self._clock() + KEYSTONE_HOLDS
        return lambda: self._clock() < until


def shown_token(request: Request) -> str | None:
    """The token of a request, from either header."""
    token = request.headers.get("X-Auth-Token")
    if not token:
        kind, _, rest = request.headers.get("Authorization", "").partition(" ")
        token = rest.strip() if kind.lower() == "bearer" else None
    return token[:TOKEN_MOST] if token else None


def is_loopback(host: str) -> bool:
    """Whether a name or address without a port is this host's own."""
    if host in _WAYS_HOME:
        return True
    try:
        return ip_address(host.strip("[]").partition("%")[0]).is_loopback
    except ValueError:
        return False


def _host_of(request: Request) -> str:
    host = request.headers.get("Host", "")
    if host.startswith("["):
        return host.partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


class _Ids(TypedDict):
    request_id: str
    global_request_id: str | None


def _ids(request: Request, request_id: str) -> _Ids:
    said = request.headers.get("X-Openstack-Request-Id", "")
    known = said.startswith("req-") and len(said) == 40 and said.replace("-", "").isalnum() and said.isascii()
    return {"request_id": request_id, "global_request_id": said if known else None}
