"""keystoneauth1's adapter of the API: by a static token here; a program that knows Keystone brings its own."""

from __future__ import annotations

from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from memhint.client.settings import Settings

SERVICE = "memhint"  # the service's type, in the catalogue and in the microversion's header


class _NoToken(NoAuth):
    """keystoneauth1's own would show the token "notused"."""

    def get_headers(self, session: Session) -> dict[str, str]:
        """No header."""
        return {}


def adapter_of(settings: Settings) -> Adapter:
    """An adapter that shows the token of ``settings``, or none.

    :raises SettingsError: when the settings are wrong
    """
    settings.check()
    url = settings.url.rstrip("/")
    auth = _NoToken(endpoint=url) if settings.token is None else Token(url, settings.token)
    session = Session(auth=auth, verify=settings.ca_file or True, timeout=settings.timeout)
    return Adapter(session, service_type=SERVICE, default_microversion=settings.microversion, user_agent="memhint")
