"""The options of [bus] as plain settings."""

from __future__ import annotations

from oslo_config import cfg

from memhint.bus.link import LinkSettings


def link_settings(conf: cfg.ConfigOpts) -> LinkSettings:
    """How to reach the broker."""
    options = conf.bus
    return LinkSettings(
        tuple(options.urls),
        options.ca_file,
        options.cert_file,
        options.key_file,
        options.timeout,
        options.heartbeat,
        options.backoff_max,
    )
