"""Requests and answers: errors in our own types, and a second attempt only where the first can have done no harm."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

import requests
from keystoneauth1.adapter import Adapter
from keystoneauth1.exceptions import ClientException, MissingAuthPlugin, Unauthorized

from memhint.backoff import Backoff
from memhint.client.body import read_json
from memhint.client.errors import (
    ApiError,
    BadAnswer,
    ClientError,
    ServerFailed,
    SettingsError,
    TooMany,
    TooSlow,
    Unauthenticated,
    Unreachable,
    type_of,
)
from memhint.client.settings import DEADLINE
from memhint.http_deadline import Deadline
from memhint.http_errors import UNFORESEEN, first_error, one_line

ATTEMPTS = 3
WAIT_MOST = 30.0  # seconds that are waited because the server asks for it; who is asked for more gives up
_BACKOFF = Backoff(0.5, WAIT_MOST)  # before the second attempt and further ones
_SAFE = (429, 502, 503, 504)

Query = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Document:
    """What came back. ``etag`` names this state of it; None where there is none."""

    body: Mapping[str, Any]
    etag: str | None


class Transport:
    """One API over one adapter."""

    def __init__(
        self,
        adapter: Adapter,
        sleep: Callable[[float], None] = time.sleep,
        *,
        seconds: float = DEADLINE,
        deadline: Deadline | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param seconds: in which an answer must be whole, further attempts with it
        :param deadline: what hangs up then; None: it is only looked at between two pieces of an answer's body
        """
        self._adapter = adapter
        self._sleep = sleep
        self._seconds = seconds
        self._deadline = deadline
        self._clock = clock

    def get(self, path: str, query: Query | None = None) -> Document:
        """Read; asked again where the server is away or asks to wait.

        :raises ClientError: when no answer came, or no success
        """
        return self._ask("GET", path, query=query, again=True)

    def send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Query | None = None,
        if_match: str | None = None,
        again: bool = False,
    ) -> Document:
        """Have something done. It is asked for once: whether it was done when no answer came is unknown.

        :param again: whether it changes nothing and may be asked for twice
        :raises ClientError: when no answer came, or no success
        """
        headers = {} if if_match is None else {"If-Match": if_match}
        return self._ask(method, path, query=query, body=body, headers=headers, again=again)

    @contextmanager
    def stream(self, path: str, last: str | None, patience: float) -> Iterator[Iterator[bytes]]:
        """The pieces of an answer that goes on, as they come.

        :param last: the last id that was seen
        :param patience: seconds of silence after which it counts as lost
        :raises ClientError: when it does not begin, or breaks off
        """
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if last is not None:
            headers["Last-Event-ID"] = last
        more = {"headers": headers, "stream": True, "timeout": (patience, patience)}
        end = self._clock() + self._seconds
        with self._until(end):
            response = self._once("GET", path, more, end)
        try:
            if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise BadAnswer(f"{response.url[:200]} does not stream: is that the API of memhint?")
            yield _pieces(response)
        finally:
            response.close()

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool,
    ) -> Document:
        more: dict[str, Any] = {"headers": {"Accept": "application/json", **(headers or {})}}
        if query:
            more["params"] = {name: _word(value) for name, value in query.items() if value is not None}
        if body is not None:
            more["json"] = dict(body)
        end = self._clock() + self._seconds
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._until(end):
                    return _answer(self._once(method, path, {**more, "stream": True}, end), end)
            except ClientError as error:
                # A request that was one too many was not carried out.
                pause = _pause(error, _BACKOFF.pause_s(attempt)) if again or isinstance(error, TooMany) else None
                if pause is None or attempt == ATTEMPTS or self._clock() + pause >= end:
                    raise
            self._sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _until(self, end: float) -> Iterator[None]:
        """:raises TooSlow: where what is done in here takes longer"""
        within = self._deadline.within if self._deadline is not None else _unwatched
        found: ClientError | None = None
        with within(max(0.0, end - self._clock())) as late:
            try:
                yield
            except ClientError as error:
                if not late.is_set() and not isinstance(error, TooSlow):
                    raise
                found = error
        if found is not None or late.is_set():  # what had come until then may look like an answer
            raise TooSlow(f"the API's answer was not whole after {self._seconds:g} s") from found

    def _once(self, method: str, path: str, more: Mapping[str, Any], end: float) -> requests.Response:
        try:
            # A redirect would take the token to wherever it leads.
            response = self._adapter.request(path, method, raise_exc=False, redirect=False, **more)
        except (MissingAuthPlugin, Unauthorized) as error:
            raise Unauthenticated(401, "", _line(error)) from error
        except ClientException as error:
            raise Unreachable(_cause(error)) from error
        except requests.RequestException as error:
            raise Unreachable(_cause(error)) from error
        except (ValueError, UnicodeError) as error:
            raise SettingsError(f"this cannot be asked: {_line(error)}") from error
        except UNFORESEEN as error:
            raise Unreachable(f"Keystone's answer cannot be read: {error!r}") from error
        if response.status_code >= 300:
            raise _error(response, end)
        return response


@contextmanager
def _unwatched(_seconds: float) -> Iterator[Event]:
    yield Event()


def _answer(response: requests.Response, end: float) -> Document:
    body = _body(response, end)
    if not isinstance(body, dict):
        raise BadAnswer(f"{response.url[:200]} answers with no JSON object: is that the API of memhint?")
    return Document(body, response.headers.get("ETag"))


def _body(response: requests.Response, end: float) -> Any:
    with response:
        try:
            return read_json(response, end)
        except requests.RequestException as error:
            raise Unreachable(_cause(error)) from error


def _pieces(response: requests.Response) -> Iterator[bytes]:
    # Without chunks there is no telling where a message ends but by its bytes.
    size = 65536 if response.headers.get("Transfer-Encoding", "").lower() == "chunked" else 1
    try:
        yield from response.iter_content(size)
    except requests.RequestException as error:
        raise Unreachable(_cause(error)) from error


def _error(response: requests.Response, end: float) -> ApiError:
    """The error that a document tells of: ours, Keystone's, or whatever a proxy says."""
    status = response.status_code
    try:
        found = first_error(_body(response, end))
    except ClientError:  # an answer that breaks off still has a status
        found = {}
    detail = found.get("detail") or _unexplained(response)
    return type_of(status)(
        status,
        one_line(found.get("code")),
        one_line(detail),
        one_line(found.get("request_id") or response.headers.get("X-Openstack-Request-Id")),
        _seconds(response.headers.get("Retry-After")),
    )


def _unexplained(response: requests.Response) -> str:
    where = response.headers.get("Location")
    if 300 <= response.status_code < 400 and where:
        return f"it leads on to {where}: name that address if you trust it"
    return f"{response.reason or 'no'} answer without an explanation: is that the API of memhint?"


def _pause(error: ClientError, wait: float) -> float | None:
    """Seconds until another attempt; None where that is of no use."""
    if isinstance(error, TooSlow):
        return None
    if isinstance(error, Unreachable):
        return wait
    if not isinstance(error, (ServerFailed, TooMany)) or error.status not in _SAFE:
        return None
    if error.retry_after is None:
        return wait
    return error.retry_after if error.retry_after <= WAIT_MOST else None


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 7 else None


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def _line(error: BaseException) -> str:
    return one_line(error) or type(error).__name__


def _cause(error: BaseException) -> str:
    """What went wrong at the bottom: libraries wrap "Connection refused" in five lines of their own."""
    seen: BaseException | None = error
    reason = ""
    while seen is not None:
        inner = getattr(seen, "reason", None)
        if isinstance(seen, OSError) and seen.strerror:
            reason = seen.strerror
        if isinstance(inner, BaseException):
            seen = inner
            continue
        wrapped = next((one for one in seen.args if isinstance(one, BaseException)), None)
        seen = wrapped or seen.__cause__ or seen.__context__
    return reason or _line(error)
