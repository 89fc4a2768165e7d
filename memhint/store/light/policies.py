"""All wishes for each VM, by origin."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping

from memhint.objects.policy import Origin, check_agree, parse_policy
from memhint.store.light.database import Database
from memhint.store.light.rows import places, upsert
from memhint.store.parts import parts
from memhint.store.rows.policies import FORGET_AFTER, SEEN_EVERY, StoredPolicies, read_wishes, wish_row

_WISHES = "SELECT domain_uuid, origin, key, value FROM policy"


class Policies:
    """Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def read(self, uuid: str | None = None) -> StoredPolicies:
        """Every wish of every VM (or of one); what does not exist is told by VM, and all else is there."""
        if uuid is not None:
            return self.of([uuid])
        with self._database.read() as connection:
            return read_wishes(connection.execute(_WISHES).fetchall())

    def of(self, uuids: Iterable[str]) -> StoredPolicies:
        """Every wish of these VMs, as `read` has it."""
        rows: list[tuple[str, ...]] = []
        with self._database.read() as connection:
            for some in parts(uuids):
                rows += connection.execute(f"{_WISHES} WHERE domain_uuid IN {places(some)}", some)
        return read_wishes(rows)

    def set_operator(self, uuid: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> None:
        """Change an operator's wishes for one VM, all or none.

        :raises PolicyError: on an unknown key or value, or where they would contradict each other
        """
        checked, names = parse_policy(values.items()), tuple(unset)
        drop = f"DELETE FROM policy WHERE domain_uuid = ? AND origin = ? AND key IN {places(names)}"
        with self._database.write() as connection:
            connection.execute(drop, (uuid, str(Origin.OPERATOR), *names))
            self._put(connection, uuid, Origin.OPERATOR, checked)
            check_agree(_operator(connection, uuid), checked)

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """Make these all the wishes of one origin.

        :raises PolicyError: on an unknown key or value
        """
        checked = parse_policy(values.items())
        before = self.read(uuid)
        if uuid not in before.unreadable and before.inputs.get(uuid, {}).get(origin, {}) == checked:
            return
        with self._database.write() as connection:
            connection.execute("DELETE FROM policy WHERE domain_uuid = ? AND origin = ?", (uuid, str(origin)))
            self._put(connection, uuid, origin, checked)

    def _put(self, connection: sqlite3.Connection, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        rows = (wish_row(uuid, origin, key, value, self._clock()) for key, value in values.items())
        upsert(connection, "policy", *rows)


def forget_gone(connection: sqlite3.Connection, now: float) -> None:
    """Drop the wishes of VMs that have been gone for long by ``now`` (unix seconds), and note which are there."""
    there = "set_at < ? AND domain_uuid IN (SELECT uuid FROM domain)"
    connection.execute(f"UPDATE policy SET set_at = ? WHERE {there}", (now, now - SEEN_EVERY))
    # With a history it was here, whenever its wishes were set. What a controller wishes it forgets by itself.
    gone = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.{column} = policy.domain_uuid)"
        for table, column in (("domain", "uuid"), ("domain_history", "uuid"), ("central_policy", "domain_uuid"))
    )
    connection.execute(f"DELETE FROM policy WHERE set_at < ? AND {gone}", (now - FORGET_AFTER,))


def _operator(connection: sqlite3.Connection, uuid: str) -> dict[str, str]:
    query = "SELECT key, value FROM policy WHERE domain_uuid = ? AND origin = ?"
    return dict(connection.execute(query, (uuid, str(Origin.OPERATOR))).fetchall())
