"""keystonemiddleware in front of the application. Only imported where Keystone is asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from keystoneauth1.exceptions import ClientException, ConnectFailure, DiscoveryFailure, RequestTimeout
from keystonemiddleware.auth_token import AuthProtocol, InvalidToken, ServiceError, list_opts
from oslo_config import cfg

from memhint.api.auth import KEYSTONE_AWAY, KEYSTONE_WAIT
from memhint.api.context import ANONYMOUS
from memhint.api.limits import client_of
from memhint.api.unconfirmed import Question, Unconfirmed
from memhint.conf.libraries import KEYSTONE
from memhint.http_errors import UNFORESEEN

LOG = logging.getLogger(__name__)

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

TIMEOUT = 5  # seconds in which Keystone must answer, where [keystone_authtoken] does not say it
RETRIES = 1  # likewise

_QUESTION = "memhint.keystone_question"  # in the environment of a request: what is to be told that Keystone answered
# What the middleware would ask Keystone for as well: a second name of the token, and the token of a service that hands
# a request on. Nothing hands requests on to this API.
_UNUSED = ("HTTP_X_STORAGE_TOKEN", "HTTP_X_SERVICE_TOKEN")

_AWAY = (ConnectFailure, DiscoveryFailure, RequestTimeout, ServiceError)


class KeystoneAway(Exception):
    """Whose token it is cannot be told now, which does not make the token wrong."""


class _Middleware(AuthProtocol):  # type: ignore[misc]
    def fetch_token(self, token: str, **kwargs: Any) -> Any:
        """What Keystone says of a token.

        :raises InvalidToken: that it is none
        :raises KeystoneAway: nothing
        """
        try:
            return super().fetch_token(token, **kwargs)
        except InvalidToken as error:
            # Where the decision is left to others the middleware takes each token for a wrong one meanwhile.
            if isinstance(error.__context__, _AWAY):  # and not what Keystone answers of a token it does not know
                raise KeystoneAway(str(error)) from error
            raise
        except (ClientException, ServiceError, *UNFORESEEN) as error:
            raise KeystoneAway(f"{type(error).__name__}: {error}") from error


def behind_keystone(application: WSGI, conf: cfg.ConfigOpts, unconfirmed: Unconfirmed) -> WSGI:
    """The application with callers told by Keystone; those without a valid token reach it as anonymous."""

    def answered(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Before the application: a stream would keep Keystone's turn for as long as it lasts.
        if question := environ.get(_QUESTION):
            question.end(environ.get("HTTP_X_IDENTITY_STATUS") == "Confirmed")
        return application(environ, start_response)

    # It decides nothing itself: some addresses are open to everybody, and problems have one form.
    inner = _Middleware(answered, {"oslo_config_config": conf, "delay_auth_decision": True, **_patience(conf)})

    def outer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        for name in _UNUSED:
            environ.pop(name, None)
        kind, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() == "bearer" and "HTTP_X_AUTH_TOKEN" not in environ:
            environ["HTTP_X_AUTH_TOKEN"] = token.strip()
        question = None
        if shown := environ.get("HTTP_X_AUTH_TOKEN"):
            found = unconfirmed.ask(client_of(environ.get("REMOTE_ADDR") or ANONYMOUS), shown)
            if isinstance(found, Question):
                environ[_QUESTION] = question = found
            else:
                environ[KEYSTONE_WAIT] = found
                del environ["HTTP_X_AUTH_TOKEN"]  # what is not there is not asked for
        try:
            return inner(environ, start_response)  # type: ignore[no-any-return]
        except KeystoneAway as error:
            LOG.error("nobody is let in: Keystone cannot be asked: %s; see [%s]", error, KEYSTONE)
            environ[KEYSTONE_AWAY] = True
            if question is not None:
                question.end()
            return application(environ, start_response)
        finally:
            if question is not None:
                question.end()

    return outer


def _patience(conf: cfg.ConfigOpts) -> dict[str, object]:
    """Without a limit of its own one Keystone that hangs would take every thread of the API for ever."""
    for group, options in list_opts():
        if group == KEYSTONE:
            conf.register_opts(options, group)
    own = {"http_connect_timeout": TIMEOUT, "http_request_max_retries": RETRIES}
    return {name: value for name, value in own.items() if not _said(conf, name)}


def _said(conf: cfg.ConfigOpts, name: str) -> bool:
    """Whether an operator has said it, be it what it is anyway."""
    found = conf.get_location(name, KEYSTONE)
    return found is not None and found.location.is_user_controlled
