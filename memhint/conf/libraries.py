"""Sections of libraries that the API uses. A library is only loaded where a file has its section."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from oslo_config import cfg

from memhint.conf.errors import ConfigError

POLICY, KEYSTONE = "oslo_policy", "keystone_authtoken"
LIBRARIES = (POLICY, KEYSTONE)


def libraries(sections: Mapping[str, Mapping[str, Sequence[str]]]) -> dict[str, dict[str, cfg.Opt]]:
    """The options of those of these sections that are a library's, by section and name.

    :param sections: what a file says, by section and option
    """
    found = {}
    if POLICY in sections:
        from oslo_policy.opts import list_opts as of_policy

        found[POLICY] = _named(chain.from_iterable(options for _, options in of_policy()))
    if KEYSTONE in sections:
        found[KEYSTONE] = _named(_keystone(sections[KEYSTONE].get("auth_type", ("password",))))
    return found


def _keystone(plugins: Sequence[str]) -> Iterable[cfg.Opt]:
    """Those of the middleware, and of the way in which it shows Keystone who it is."""
    try:
        from keystoneauth1 import loading
        from keystoneauth1.exceptions import NoMatchingPlugin
        from keystonemiddleware.auth_token import list_opts
    except ImportError as error:
        raise ConfigError(None, f"[{KEYSTONE}]", f"needs keystonemiddleware: {error}") from error
    yield from chain.from_iterable(options for group, options in list_opts() if group == KEYSTONE)
    yield from loading.get_auth_common_conf_options()
    yield from loading.get_session_conf_options()
    for name in plugins:
        try:
            yield from loading.get_auth_plugin_conf_options(name)
        except NoMatchingPlugin as error:
            raise ConfigError(None, f"[{KEYSTONE}] auth_type", f"{name!r} is not accepted: use password") from error


def _named(options: Iterable[cfg.Opt]) -> dict[str, cfg.Opt]:
    found = {}
    for option in options:
        names = (option.name, option.dest, *(old.name for old in option.deprecated_opts if old.name))
        for name in names:
            found[name] = option
            found[name.replace("-", "_")] = option
    return found
