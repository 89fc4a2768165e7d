"""Requests through keystoneauth, which Nova has: with Keystone, with a token from a file, or with none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import requests
from keystoneauth1 import adapter, loading
from keystoneauth1 import exceptions as ks
from oslo_config import cfg

from memhint_nova.client import Response
from memhint_nova.conf import GROUP
from memhint_nova.deadline import Deadline
from memhint_nova.errors import LookFailed

MIB = 1 << 20
_PIECE = 1 << 16
_LONGEST_TOKEN = 16384
# What keystoneauth lets through where Keystone's token is not what it should be.
_UNFORESEEN = (LookupError, TypeError, ValueError, AttributeError)


class KeystoneauthTransport:
    """One session for all requests. Redirects are not followed, and nothing is asked twice but after a 401."""

    def __init__(
        self,
        asked: adapter.Adapter,
        timeout: float,
        most_bytes: int,
        deadline: Deadline,
        token_file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param timeout: seconds to connect and between two pieces; a whole answer has ten times as long."""
        self._adapter = asked
        self._timeout = timeout
        self._most_bytes = most_bytes
        self._deadline = deadline
        self._token_file = token_file
        self._clock = clock

    def get(self, path: str, params: Mapping[str, str], headers: Mapping[str, str]) -> Response:
        """See Transport."""
        sent = dict(headers)
        if self._token_file is not None:
            sent["X-Auth-Token"] = _token(self._token_file)
        seconds = 10 * self._timeout
        with self._deadline.within(seconds) as late:
            try:
                answer = self._get(path, params, sent)
            except LookFailed:
                if not late.is_set():
                    raise
        if late.is_set():  # also where what had come until then looks like an answer
            raise LookFailed(f"the answer took longer than {seconds:g} s")
        return answer

    def _get(self, path: str, params: Mapping[str, str], sent: Mapping[str, str]) -> Response:
        try:
            response = self._adapter.get(
                path,
                params=dict(params),
                headers=dict(sent),
                raise_exc=False,
                redirect=False,
                # With log keystoneauth would read all of the body, however large it is.
                log=False,
                stream=True,
                timeout=self._timeout,
            )
            try:
                return Response(response.status_code, response.headers.get("ETag"), self._body(response))
            finally:
                response.close()
        except (ks.ClientException, requests.RequestException, OSError) as error:
            raise LookFailed(str(error) or type(error).__name__) from error
        except _UNFORESEEN as error:
            raise LookFailed(f"Keystone's answer cannot be read: {error!r}") from error

    def _body(self, response: requests.Response) -> bytes:
        until = self._clock() + 10 * self._timeout
        body = bytearray()
        for piece in response.iter_content(_PIECE):
            body += piece
            if len(body) > self._most_bytes:
                raise LookFailed(f"the answer has more than {self._most_bytes / MIB:g} MiB ([memhint] max_body_mib)")
            if self._clock() > until:
                raise LookFailed(f"the answer took longer than {10 * self._timeout:g} s")
        return bytes(body)


def from_conf(conf: cfg.ConfigOpts) -> KeystoneauthTransport:
    """As [memhint] of nova.conf says.

    :raises LookFailed: where it does not say enough, or what keystoneauth does not take
    """
    options = conf[GROUP]
    try:
        auth = None if options.token_file else loading.load_auth_from_conf_options(conf, GROUP)
    except ks.ClientException as error:
        raise LookFailed(f"[memhint] of nova.conf: {error}") from error
    if auth is None and not options.endpoint_override:
        raise LookFailed("nova.conf does not say where the admin API is: set [memhint] endpoint_override or auth_type")
    # Not load_session_from_conf_options: it wants options that mean nothing here.
    deadline, asking = Deadline(), requests.Session()
    asking.mount("http://", deadline)
    asking.mount("https://", deadline)
    session = loading.session.Session().load_from_options(
        insecure=options.insecure,
        cacert=options.cafile,
        cert=options.certfile,
        key=options.keyfile,
        auth=auth,
        session=asking,
        timeout=options.request_timeout,  # of what keystoneauth asks by itself: Keystone, for a token
    )
    asked = adapter.Adapter(
        session,
        service_type=options.service_type,
        service_name=options.service_name,
        region_name=options.region_name,
        interface=options.valid_interfaces,
        endpoint_override=options.endpoint_override,
        user_agent="memhint-nova",
    )
    token_file = Path(options.token_file) if options.token_file else None
    return KeystoneauthTransport(asked, options.request_timeout, options.max_body_mib * MIB, deadline, token_file)


def _token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST_TOKEN + 1).strip()
    except OSError as error:
        raise LookFailed(f"{path} cannot be read: {error.strerror}") from error
    if not line or len(line) > _LONGEST_TOKEN or not line.isascii() or not line.decode().isprintable():
        raise LookFailed(f"{path} holds no token")
    return line.decode()
