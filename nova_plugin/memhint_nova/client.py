"""Hosts from memhint's admin API: all of them, then only what changed. Everything that is read is bounded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from memhint_nova.errors import LookFailed, TokenExpired
from memhint_nova.host import FIELDS

PATH = "/v1/hosts"
PAGE = 1000  # the most that the API gives at once
MOST_PAGES = 100
MOST_BYTES = 32 << 20  # of all pages of one look
MOST_HOSTS = PAGE * MOST_PAGES
HEADERS = {"Accept": "application/json", "OpenStack-API-Version": "memhint 1.0"}


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP answer."""

    status: int
    etag: str | None
    body: bytes


class Transport(Protocol):
    """How a request is made."""

    def get(self, path: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Response:
        """Ask.

        :raises LookFailed: without an answer, or with one that is too large
        """


@dataclass(frozen=True, slots=True)
class News:
    """What one look brought. ``whole``: these are all hosts there are."""

    hosts: tuple[Mapping[str, Any], ...]
    deleted: tuple[str, ...]
    token: str | None
    whole: bool


class HostsClient:
    """Looks at the hosts. One thread at a time."""

    def __init__(self, transport: Transport, most_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """:param most_seconds: for all pages of one look."""
        self._transport = transport
        self._most_seconds = most_seconds
        self._clock = clock
        self._etag: tuple[str | None, str] | None = None  # of the look that began at this token
        self._anew = False

    def look(self, token: str | None) -> News | None:
        """What changed since a token, or everything; None where the server says that nothing did.

        :raises LookFailed: nothing was learned
        """
        if self._anew:
            token = None
        # Whatever was wrong with asking for changes, as an answer that is too large: a whole list is in parts.
        self._anew = token is not None
        try:
            news = self._walk(token)
        except TokenExpired:
            news = self._walk(None)
        self._anew = False
        return news

    def _walk(self, token: str | None) -> News | None:
        until = self._clock() + self._most_seconds
        # What changed comes in one part, and the API takes no limit with it.
        begin = {"limit": str(PAGE)} if token is None else {"changed_since": token}
        first = {"fields": ",".join(FIELDS), **begin}
        params: Mapping[str, str] | None = first
        etag = self._etag[1] if self._etag and self._etag[0] == token else None
        found: list[Mapping[str, Any]] = []
        deleted: list[str] = []
        changed: str | None = None
        size = 0
        for page in range(MOST_PAGES):
            if params is None:
                break
            if self._clock() > until:
                raise LookFailed(f"{page} pages took longer than {self._most_seconds:g} s")
            headers = {**HEADERS, "If-None-Match": etag} if etag and page == 0 else HEADERS
            answer = self._transport.get(PATH, params, headers)
            if answer.status == 304 and page == 0 and etag:
                return None
            size += len(answer.body)
            if size > MOST_BYTES:
                raise LookFailed(f"the pages have more than {MOST_BYTES >> 20} MiB")
            told = _document(answer, token)
            # What was not asked for is not kept until the last page.
            found += [{name: one[name] for name in FIELDS if name in one} for one in _list_of(told, "hosts", dict)]
            deleted += _list_of(told, "deleted", str)
            if len(found) > MOST_HOSTS or len(deleted) > MOST_HOSTS:
                raise LookFailed(f"the list has more than {MOST_HOSTS} hosts")
            before, params = params, _next(told)
            if params is not None and params == before:
                raise LookFailed("the list does not end: next leads to the same page again")
            if page == 0:
                # What changed while the further pages were read is told again next time.
                changed = _token(told)
                self._etag = (token, answer.etag) if answer.etag and params is None else None
        else:
            raise LookFailed(f"the list does not end after {MOST_PAGES} pages")
        return News(tuple(found), tuple(deleted), changed, whole=token is None)


def _document(answer: Response, token: str | None) -> Mapping[str, Any]:
    if answer.status == 410 and token is not None:
        raise TokenExpired("changed_since expired")
    if answer.status != 200:
        raise LookFailed(f"status {answer.status}: {_title(answer.body)}")
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise LookFailed(f"the answer is no JSON: {error}") from error
    if not isinstance(told, dict):
        raise LookFailed("the answer is no object")
    return told


def _title(body: bytes) -> str:
    """What an error's document says, for the log."""
    try:
        error = json.loads(body)["errors"][0]
        return f"{error['title']}: {error['detail']}"[:300]
    except (ValueError, LookupError, TypeError, RecursionError):
        return repr(body[:100])


def _list_of(told: Mapping[str, Any], name: str, kind: type) -> list[Any]:
    found = told.get(name, [] if name == "deleted" else None)
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
        raise LookFailed(f"{name} is no list of {kind.__name__}")
    return found


def _token(told: Mapping[str, Any]) -> str | None:
    token = told.get("changed")
    if token is not None and not (isinstance(token, str) and 0 < len(token) <= 1024):
        raise LookFailed("changed is no token")
    return token


def _next(told: Mapping[str, Any]) -> Mapping[str, str] | None:
    """The next page's query. Host and path of what the server says are not followed: they are known already."""
    following = told.get("next")
    if following is None:
        return None
    if not isinstance(following, str) or len(following) > 8192:
        raise LookFailed("next is no address")
    return dict(parse_qsl(urlsplit(following).query))
