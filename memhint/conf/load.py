"""Reading the configuration into a private ConfigOpts: no process-wide CONF, and every mistake named at the start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from oslo_config import cfg
from oslo_log import log

from memhint.conf.check import check
from memhint.conf.errors import ConfigError
from memhint.conf.file import check_file
from memhint.conf.libraries import LIBRARIES
from memhint.conf.opts import aggregate_opts, static_opts

DEFAULT_FILE = "/etc/memhint/memhint.conf"

Groups = Sequence[tuple[str, list[cfg.Opt]]]


def load(files: Sequence[str | os.PathLike[str]] | None = None) -> cfg.ConfigOpts:
    """The checked configuration of the given files, later ones winning.

    Without files it is the one of DEFAULT_FILE, or the shipped defaults where that does not exist.

    :raises ConfigError: on a file that cannot be read, an unknown option, or a value that is not accepted
    """
    names = _names(files)
    sections = {section for name in names for section in check_file(name)}
    conf = cfg.ConfigOpts()
    _register(conf, static_opts())
    log.register_options(conf)
    # Its plugins introduce themselves at every upgrade of the store.
    # pika tells of each failed attempt ten times; memhint tells of it once.
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), "alembic=WARN", "pika=CRITICAL"])
    try:
        # use_env off: a value must come from a file that can be named in an error
        conf([], project="memhint", default_config_files=names, default_config_dirs=[], use_env=False)
        known = [*static_opts(), *aggregate_opts(conf.host.aggregates)]
        _register(conf, known)
        _read_all(conf, known, names)
    except (cfg.Error, ValueError, RecursionError) as error:
        raise ConfigError(None, None, str(error)) from error
    except SystemExit as error:  # how argparse, which oslo.config asks for logging options, says that a value is wrong
        raise ConfigError(", ".join(names), None, "a logging option refers to a value that it does not take") from error
    unknown = sorted(sections.difference([group for group, _ in known], LIBRARIES))
    if unknown:
        raise ConfigError(None, f"[{unknown[0]}]", "is no section of this host: name it in [host] aggregates")
    check(conf)
    return conf


def _names(files: Sequence[str | os.PathLike[str]] | None) -> list[str]:
    if files is None:
        return [DEFAULT_FILE] if Path(DEFAULT_FILE).exists() else []
    return [os.fspath(name) for name in files]


def _register(conf: cfg.ConfigOpts, groups: Groups) -> None:
    for group, options in groups:
        conf.register_opts(options, group=None if group == "DEFAULT" else group)


def _read_all(conf: cfg.ConfigOpts, groups: Groups, names: Sequence[str]) -> None:
    """Values with a reference to another option are only parsed when read: read them while somebody still looks."""
    for group, options in groups:
        where = conf if group == "DEFAULT" else conf[group]
        for option in options:
            try:
                where[option.dest]
            except (cfg.Error, ValueError, RecursionError) as error:
                # not the error's own words: they have values, of secret options too, and what follows a $ in a password
                wrong = (
                    "a $ refers to another option, which there is not, does not fit or refers back: "
                    "write $$ where it is a plain $"
                )
                raise ConfigError(", ".join(names), f"[{group}] {option.dest}", wrong) from error
