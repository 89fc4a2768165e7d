"""The way to the API by a static token; a program that knows Keystone makes a Transport over an adapter of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from memhint.client.settings import Settings
from memhint.client.transport import Transport
from memhint.http_deadline import watched_session

SERVICE = "memhint"  # the service's type, in the catalogue and in the microversion's header


class _NoToken(NoAuth):
    """keystoneauth1's own would show the token "notused"."""

    def get_headers(self, session: Session) -> dict[str, str]:
        """No header."""
        return {}


def transport_of(settings: Settings, sleep: Callable[[float], None] = time.sleep) -> Transport:
    """Requests to the API of ``settings``, with its token or none, each within its deadline.

    :raises SettingsError: when the settings are wrong
    """
    settings.check()
    url = settings.url.rstrip("/")
    auth = _NoToken(endpoint=url) if settings.token is None else Token(url, settings.token)
    asking, deadline = watched_session()
    session = Session(auth=auth, session=asking, verify=settings.ca_file or True, timeout=settings.timeout)
    asked = Adapter(session, service_type=SERVICE, default_microversion=settings.microversion, user_agent="memhint")
    return Transport(asked, sleep, seconds=settings.deadline, deadline=deadline)
