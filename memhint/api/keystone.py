"""keystonemiddleware in front of the application. Only imported where Keystone is asked for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from keystoneauth1.exceptions import ClientException, ConnectFailure, ConnectTimeout, DiscoveryFailure, RequestTimeout
from keystonemiddleware.auth_token import AuthProtocol, InvalidToken, ServiceError, list_opts
from oslo_config import cfg

from memhint.api.auth import AWAY

LOG = logging.getLogger(__name__)

_GROUP = "keystone_authtoken"
# The middleware waits for ever unless it is told otherwise, and each request that waits keeps a thread.
_PATIENCE = {"http_connect_timeout": 5, "http_request_max_retries": 1}

# What the middleware takes for a token that is not valid, although nobody has looked at it.
_AWAY = (ConnectFailure, ConnectTimeout, DiscoveryFailure, RequestTimeout, ServiceError)

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def behind_keystone(application: WSGI, conf: cfg.ConfigOpts) -> WSGI:
    """The application with callers told by Keystone; those without a valid token reach it as anonymous."""
    for group, options in list_opts():
        if group == _GROUP:
            conf.register_opts(options, group)
    for name, value in _PATIENCE.items():
        conf.set_default(name, value, _GROUP)
    # It decides nothing itself: some addresses are open to everybody, and problems have one form.
    inner = Protocol(application, {"oslo_config_config": conf, "delay_auth_decision": True})

    def outer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        kind, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() == "bearer" and "HTTP_X_AUTH_TOKEN" not in environ:
            environ["HTTP_X_AUTH_TOKEN"] = token.strip()
        return inner(environ, start_response)  # type: ignore[no-any-return]

    return outer


class Protocol(AuthProtocol):  # type: ignore[misc]
    """The middleware, which tells a token that Keystone refuses from one that it could not be asked about."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self._asked = threading.local()

    def process_request(self, request: Any) -> Any:
        """Note in the environment whether Keystone was away."""
        self._asked.away = False
        answer = super().process_request(request)
        request.environ[AWAY] = self._asked.away
        return answer

    def fetch_token(self, token: str, **more: Any) -> Any:
        """What Keystone says of a token.

        :raises InvalidToken: when it says that it is none, or nothing
        """
        try:
            return super().fetch_token(token, **more)
        except InvalidToken as error:
            self._asked.away = isinstance(error.__context__, _AWAY)
            raise
        except ClientException as error:
            self._asked.away = True
            LOG.warning("Keystone does not answer as it should: %s", error)
            raise InvalidToken("Keystone is away") from error
