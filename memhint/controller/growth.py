"""Learns the growth table from what the store has of VMs: a host in each turn, so that no turn takes long."""

from __future__ import annotations

import logging

from memhint.planner.growth import GrowthTable, course_of, table_of, tally_of, told_by
from memhint.store.errors import StoreDamaged
from memhint.store.growth import Growth

LOG = logging.getLogger(__name__)

EVERY = 6 * 3600.0  # seconds between two tables: a host is looked at once a day


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
