"""Where the log goes: oslo.log as the configuration says, with a mistake in it named, and each error told once."""

from __future__ import annotations

import logging
import os
from typing import Literal

from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from memhint.conf.errors import ConfigError
from memhint.conf.journal import read_by_journal, with_priority

_PRODUCT = "memhint"

Service = Literal["agent", "controller", "api"]


def set_up(conf: cfg.ConfigOpts, service: Service, log_file: str | None = None) -> None:
    """Log as the configuration says from now on.

    :param service: whose log it is. Where there is a log_dir and no log_file, its file is named for it: services of one
        machine are different users, and the one that came first would keep the others from a file of all of them
    :param log_file: what the command line names, which holds whatever the configuration says
    :raises ConfigError: when it cannot; then nothing is logged until somebody sets up another one
    """
    if log_file:
        # absolute, for oslo.log would look for another one in log_dir
        conf.set_override("log_file", os.path.abspath(log_file))
    elif conf.log_dir and not conf.log_file:
        conf.set_override("log_file", f"{_PRODUCT}-{service}.log")
    try:
        log.setup(conf, _PRODUCT)
    except OSError as error:
        advice = "make it so that this user can write there, or leave log_dir and log_file out"
        raise ConfigError(
            None, "[DEFAULT] log_dir, log_file", f"{error.filename or 'the log'}: {error.strerror or error}; {advice}"
        ) from error
    except (log.LogConfigError, ImportError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(None, "the options of logging in [DEFAULT]", f"{error}") from error
    if not conf.use_json and not conf.log_config_append:
        for handler in logging.getLogger().handlers:
            kind = OnceInJournal if read_by_journal(handler) else Once
            handler.setFormatter(kind(project=_PRODUCT, datefmt=conf.log_date_format, config=conf))


class Once(ContextFormatter):
    """oslo.log adds the error that is being handled to each warning, although most of them have its words already."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        text: str = super().format(record)
        summary = getattr(record, "error_summary", "")
        said = summary.partition(": ")[2]
        if said and not record.exc_info and said in record.getMessage():
            return text.removesuffix(f": {summary}")
        return text


class OnceInJournal(Once):
    """The same for systemd's journal, which would else take every line for information."""

    def format(self, record: logging.LogRecord) -> str:
        """The lines."""
        return with_priority(super().format(record), record.levelno)
