"""Every option by its group, for loading and for oslo-config-generator."""

from __future__ import annotations

from oslo_config import cfg

from memhint.conf import base, dedup, guest, host, observe, planner, policy, reporting, store, virt

_AREAS = (host, planner, policy, reporting, dedup, guest, virt, observe, store)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Group name and options, in the order in which the sample shows them."""
    return [("DEFAULT", list(base.OPTS)), *((area.GROUP, list(area.OPTS)) for area in _AREAS)]
