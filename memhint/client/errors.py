"""How asking the API can fail: one type for each thing that a caller would do next."""

from __future__ import annotations

from collections.abc import Mapping


class ClientError(Exception):
    """The base of all errors of the client: the API could not be asked, or did not do what it was asked."""


class SettingsError(ClientError):
    """The address, token or certificates cannot be used; the text never holds a token."""


class Unreachable(ClientError):
    """No answer came: wrong address, no server there, no route, a certificate that is not trusted, too slow."""


class TooSlow(Unreachable):
    """The answer was not whole in time, however much of it came."""


class BadAnswer(ClientError):
    """Something answered that does not speak this API."""


class ApiError(ClientError):
    """The API refused, or failed. ``code`` names the problem for programs, ``detail`` says what to do next.

    ``retry_after`` is how many seconds it asked to wait; None where it did not.
    """

    def __init__(self, status: int, code: str, detail: str, request_id: str = "", retry_after: float | None = None):
        self.status = status
        self.code = code
        self.detail = detail
        self.request_id = request_id
        self.retry_after = retry_after
        about = ", ".join(word for word in (f"HTTP {status}", code, request_id) if word)
        super().__init__(f"{detail} ({about})")


class BadRequest(ApiError):
    """400, 405, 406, 413 and other 4xx: the request is wrong, or for another version of the API."""


class Unauthenticated(ApiError):
    """401: no token, or an unknown one."""


class Forbidden(ApiError):
    """403: the owner of the token may not do this."""


class NotFound(ApiError):
    """404: there is no such thing, or the caller may not see it."""


class Conflict(ApiError):
    """409, 412: what the request is about has changed or ended meanwhile."""


class Expired(ApiError):
    """410: the token is too old to tell what changed since: read the whole list again."""


class TooMany(ApiError):
    """429: too many requests."""


class ServerFailed(ApiError):
    """5xx: the server fails, or what it needs, such as its database."""


_TYPES: Mapping[int, type[ApiError]] = {
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    412: Conflict,
    429: TooMany,
}


def type_of(status: int) -> type[ApiError]:
    """The type for an HTTP status."""
    return _TYPES.get(status) or (ServerFailed if status >= 500 else BadRequest)
