"""All wishes for each VM, by origin."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from memhint.objects.policy import Origin, parse_policy
from memhint.store.light.database import Database
from memhint.store.light.rows import upsert
from memhint.store.rows.policies import StoredPolicies, read_wishes, wish_row


class Policies:
    """Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def read(self) -> StoredPolicies:
        """Every wish of every VM; what does not exist is told by VM, and all else is there."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT domain_uuid, origin, key, value FROM policy").fetchall()
        return read_wishes(rows)

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """Make these all the wishes of one origin.

        :raises PolicyError: on an unknown key or value
        """
        checked = parse_policy(values.items())
        before = self.read()
        if uuid not in before.unreadable and before.inputs.get(uuid, {}).get(origin, {}) == checked:
            return
        with self._database.write() as connection:
            connection.execute("DELETE FROM policy WHERE domain_uuid = ? AND origin = ?", (uuid, str(origin)))
            rows = (wish_row(uuid, origin, key, value, self._clock()) for key, value in checked.items())
            upsert(connection, "policy", *rows)
