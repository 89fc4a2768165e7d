"""The client that a command asks: made of options, environment and configuration, or of OpenStackClient's session."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from memhint import conf as configuration
from memhint.client.client import Client
from memhint.client.session import transport_of
from memhint.client.settings import Settings, check_token, read_token
from memhint.conf.load import DEFAULT_FILE


def client_of(app: Any) -> Client:
    """The client of an application.

    :raises SettingsError: when its settings are wrong
    :raises ConfigError: when the configuration is
    """
    if in_openstack(app):
        found: Client = app.client_manager.memhint
        return found
    settings = settings_of(app.options, os.environ)
    return Client(transport_of(settings, app.sleep), app.sleep)


def in_openstack(app: Any) -> bool:
    """Whether the application is OpenStackClient."""
    return hasattr(app, "client_manager")


def settings_of(options: argparse.Namespace, environ: Mapping[str, str]) -> Settings:
    """What the command line says, else the environment, else the configuration.

    :raises SettingsError: when a token cannot be read
    :raises ConfigError: when the configuration is wrong
    """
    section = _section(options.config_file)
    return Settings(
        url=options.api or environ.get("MEMHINT_API") or section.url,
        token=_token(options.token_file, environ, section.token_file),
        ca_file=section.ca_file or None,
        timeout=section.timeout,
        deadline=section.deadline,
    )


def _token(named: str | None, environ: Mapping[str, str], configured: str) -> str | None:
    # No option takes the token itself: everybody on the host could read it in the list of processes.
    if named:
        return read_token(named)
    if environ.get("MEMHINT_TOKEN"):
        return check_token(environ["MEMHINT_TOKEN"], "MEMHINT_TOKEN")
    path = environ.get("MEMHINT_TOKEN_FILE") or configured
    return read_token(path) if path else None


def _section(files: list[str] | None) -> Any:
    """[client]. People who are no operators of this host cannot read its configuration, and need none."""
    if files is None and not os.access(DEFAULT_FILE, os.R_OK):
        files = []
    return configuration.load(files).client
