"""Sections of libraries that the API uses. A library is only loaded where a file has its section."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from oslo_config import cfg

POLICY, KEYSTONE = "oslo_policy", "keystone_authtoken"
LIBRARIES = (POLICY, KEYSTONE)


def libraries(sections: Iterable[str]) -> dict[str, dict[str, cfg.Opt]]:
    """The options of those of these sections that are a library's, by section and name."""
    found = {}
    for section in sections:
        if section == POLICY:
            from oslo_policy.opts import list_opts as of_policy

            found[section] = _named(chain.from_iterable(options for _, options in of_policy()))
        elif section == KEYSTONE:
            found[section] = _named(_keystone())
    return found


def _keystone() -> Iterable[cfg.Opt]:
    from keystoneauth1 import loading
    from keystonemiddleware.auth_token import list_opts

    yield from chain.from_iterable(options for group, options in list_opts() if group == KEYSTONE)
    yield from loading.get_auth_common_conf_options()
    yield from loading.get_session_conf_options()
    for name in loading.get_available_plugin_names():
        yield from loading.get_auth_plugin_conf_options(name)


def _named(options: Iterable[cfg.Opt]) -> dict[str, cfg.Opt]:
    found = {}
    for option in options:
        names = (option.name, option.dest, *(old.name for old in option.deprecated_opts if old.name))
        for name in names:
            found[name] = option
            found[name.replace("-", "_")] = option
    return found
