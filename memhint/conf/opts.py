"""Every option by its group, for loading and for oslo-config-generator."""

from __future__ import annotations

from collections.abc import Iterable

from oslo_config import cfg

from memhint.conf import (
    active,
    aggregate,
    api,
    base,
    bus,
    client,
    controller,
    dedup,
    guest,
    host,
    khugepaged,
    ladder,
    metrics,
    nova,
    observe,
    openstack,
    planner,
    policy,
    recycler,
    reporting,
    store,
    swap_out,
    thp,
    tiering,
    virt,
)
from memhint.conf.policy import aggregate_group

_AREAS = (
    host,
    planner,
    ladder,
    policy,
    reporting,
    recycler,
    khugepaged,
    thp,
    tiering,
    dedup,
    swap_out,
    guest,
    virt,
    observe,
    active,
    store,
    bus,
    controller,
    api,
    client,
    metrics,
    nova,
    openstack,
)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Group name and options, in the order in which the sample shows them. One group stands for every aggregate."""
    return [*static_opts(), (aggregate.GROUP, list(aggregate.OPTS))]


def static_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Those whose groups have one name on every host."""
    return [("DEFAULT", list(base.OPTS)), *((area.GROUP, list(area.OPTS)) for area in _AREAS)]


def aggregate_opts(names: Iterable[str]) -> list[tuple[str, list[cfg.Opt]]]:
    """Those of the aggregates that this host belongs to."""
    return [(aggregate_group(name), list(aggregate.OPTS)) for name in names]
