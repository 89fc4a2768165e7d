"""[aggregate_name]: what holds for the VMs of this host because of an aggregate that it belongs to."""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf.policy import AGGREGATE_OPTS, aggregate_group

GROUP = aggregate_group("name")  # stands for every aggregate, in the sample and in the pages

OPTS = (
    cfg.FloatOpt(
        "max_ratio",
        min=0,
        max=100,
        help="max_ratio of [host], for the hosts of this aggregate. The least that is said holds.",
    ),
    *AGGREGATE_OPTS,
)


def max_ratio(conf: cfg.ConfigOpts) -> float:
    """The least of the host's maximum and its aggregates'."""
    return _bounded(conf, conf.host.max_ratio)


def earned_max_ratio(conf: cfg.ConfigOpts) -> float:
    """How far the maximum may rise: no aggregate's is exceeded."""
    return _bounded(conf, conf.host.earned_max_ratio)


def _bounded(conf: cfg.ConfigOpts, most: float) -> float:
    said = [conf[aggregate_group(name)].max_ratio for name in conf.host.aggregates]
    return float(min([most, *(one for one in said if one is not None)]))
