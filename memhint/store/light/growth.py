"""The growth table that a host was sent."""

from __future__ import annotations

import time
from collections.abc import Callable

from memhint.planner.growth import GrowthTable
from memhint.store import codec
from memhint.store.light.database import Database
from memhint.store.light.rows import add_new
from memhint.store.rows.growth import NO_TABLE, parse_table


class Growth:
    """Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def newest(self) -> GrowthTable | None:
        """The table that holds; None where nothing was learnt yet.

        :raises StoreDamaged: when it cannot be read
        """
        with self._database.read() as connection:
            row = connection.execute("SELECT document FROM growth").fetchone()
        return parse_table(row[0]) if row is not None and row[0] else None

    def save(self, table: GrowthTable) -> None:
        """Make it the one that holds."""
        values = (self._clock(), table.version, codec.dump(table))
        with self._database.write() as connection:
            add_new(connection, "growth", NO_TABLE)
            connection.execute("UPDATE growth SET made = ?, version = ?, document = ?", values)
