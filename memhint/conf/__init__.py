"""The configuration: oslo.config options, one file per area, and how a process loads them."""

from __future__ import annotations

from memhint.conf.check import check
from memhint.conf.errors import ConfigError
from memhint.conf.load import DEFAULT_FILE, load

__all__ = ["DEFAULT_FILE", "ConfigError", "check", "load"]
