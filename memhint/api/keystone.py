"""keystonemiddleware in front of the application. Only imported where Keystone is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from keystonemiddleware.auth_token import AuthProtocol
from oslo_config import cfg

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def behind_keystone(application: WSGI, conf: cfg.ConfigOpts) -> WSGI:
    """The application with callers told by Keystone; those without a valid token reach it as anonymous."""
    # It decides nothing itself: some addresses are open to everybody, and problems have one form.
    inner = AuthProtocol(application, {"oslo_config_config": conf, "delay_auth_decision": True})

    def outer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        kind, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if kind.lower() == "bearer" and "HTTP_X_AUTH_TOKEN" not in environ:
            environ["HTTP_X_AUTH_TOKEN"] = token.strip()
        return inner(environ, start_response)  # type: ignore[no-any-return]

    return outer
