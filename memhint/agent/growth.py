"""The growth table that an agent uses: the last one that it was sent, kept in its own store over restarts."""

from __future__ import annotations

import logging
from typing import Protocol

from memhint.planner.growth import GrowthError, GrowthTable, checked
from memhint.store import codec
from memhint.store.errors import StoreDamaged, StoreError

LOG = logging.getLogger(__name__)


class GrowthStore(Protocol):
    """Where the table outlives the agent."""

    def newest(self) -> GrowthTable | None:
        """The table that holds."""

    def save(self, table: GrowthTable) -> None:
        """Make it the one that holds."""


class Learnt:
    """What the fleet has learnt of how VMs grow. For several threads."""

    def __init__(self, store: GrowthStore) -> None:
        self._store = store
        self._table: GrowthTable | None = None
        try:
            self._table = store.newest()
        except StoreError as error:
            LOG.warning("no growth table until controllers send one: %s", error)

    def __call__(self) -> GrowthTable | None:
        """The table that holds; None before there is one."""
        return self._table

    def take(self, plain: object) -> GrowthTable:
        """Go by this table from now on; whatever is no table leaves the old one.

        :raises GrowthError: on what is none
        :raises StoreError: when the store cannot be used
        """
        try:
            table = checked(codec.structure(plain, GrowthTable))
        except StoreDamaged as error:
            raise GrowthError(str(error)) from error
        self._store.save(table)
        if self._table is None or self._table.version != table.version:
            LOG.info("growth table %d", table.version)
        self._table = table
        return table
