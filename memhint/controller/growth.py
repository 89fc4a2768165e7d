"""Learns the growth table from what the store has of VMs: a host in each turn, so that no turn takes long."""

from __future__ import annotations

import logging

from oslo_config import cfg

from memhint.conf.errors import ConfigError
from memhint.planner.growth import DAY, LEAST_KEPT, GrowthTable, course_of, table_of, tally_of, told_by
from memhint.store.errors import StoreDamaged
from memhint.store.growth import Growth

LOG = logging.getLogger(__name__)

EVERY = 6 * 3600.0  # seconds between two tables: a host is looked at once a day


def check(conf: cfg.ConfigOpts) -> None:
    """Hold what is to be learnt against what is kept. Who learns nothing may keep less, as agents may.

    :raises ConfigError: where young VMs would be in no table, and nobody would notice
    """
    days, least = conf.store.domain_hourly_days, LEAST_KEPT / DAY
    if conf.controller.growth_interval and days < least:
        wrong = f"{days:g}: use {least:g} or more, or [controller] growth_interval = 0 to learn nothing of how VMs grow"
        raise ConfigError(None, "[store] domain_hourly_days", wrong)


class Learner:
    """One turn after the other; with several controllers they take turns."""

    def __init__(self, growth: Growth, pause: float) -> None:
        """:param pause: seconds between two turns"""
        self._growth = growth
        self._pause = pause

    def round(self) -> bool:
        """Look at one host, where it is time and our turn, and make a new table where it is time for one.

        Whether a host was looked at.

        :raises StoreError: when the database fails
        """
        turn = self._growth.begin(self._pause, EVERY)
        if turn is None:
            return False
        vms = self._growth.points(turn.host).values()
        keep = self._growth.keep
        self._growth.keep_tally(turn.host, tally_of(told_by(course_of(points, keep)) for points in vms))
        if turn.due:
            self._make(turn.version)
        return True

    def _make(self, version: int) -> None:
        tallies = self._growth.tallies()
        made = table_of(version, tallies)
        try:
            before = self._growth.newest()
        except StoreDamaged as error:
            LOG.error("another growth table takes its place: %s", error)
            before = None
        if before is not None and before.cells == made.cells:
            self._growth.save(None)
        elif before is not None or known(made):
            LOG.info("growth table %d of %d hosts: %d of its cells are known", version, len(tallies), known(made))
            self._growth.save(made)


def known(table: GrowthTable) -> int:
    """How many cells of a table say something."""
    return sum(one.percent > 0 for row in table.cells for one in row)
