"""Where the log goes: oslo.log as the configuration says, with a mistake in it named, and each error told once."""

from __future__ import annotations

import logging

from oslo_config import cfg
from oslo_log import log
from oslo_log.formatters import ContextFormatter

from memhint.conf.errors import ConfigError

_PRODUCT = "memhint"


def set_up(conf: cfg.ConfigOpts) -> None:
    """Log as the configuration says from now on.

    :raises ConfigError: when it cannot; then nothing is logged until somebody sets up another one
    """
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
            handler.setFormatter(Once(project=_PRODUCT, datefmt=conf.log_date_format, config=conf))


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
