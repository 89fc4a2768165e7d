"""All wishes for each VM, by origin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, select, update

from memhint.objects.policy import Origin, check_agree, parse_policy
from memhint.store.engine import Database
from memhint.store.errors import StoreDamaged
from memhint.store.parts import parts
from memhint.store.rows.policies import FORGET_AFTER, SEEN_EVERY, Inputs, StoredPolicies, read_wishes, wish_row
from memhint.store.tables import central_policy, domain, domain_history, policy
from memhint.store.upsert import upsert

_WISHES = select(policy.c.domain_uuid, policy.c.origin, policy.c.key, policy.c.value)


class Policies:
    """Policies in the store, keyed by domain UUID. Values are checked on their way in and on their way out.

    Every method raises StoreError when the database fails.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def set_operator(self, uuid: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> None:
        """Change an operator's wishes for one VM, all or none.

        :raises PolicyError: on an unknown key or value, or where they would contradict each other
        """
        checked = parse_policy(values.items())
        with self._database.write() as connection:
            connection.execute(delete(policy).where(*_of_operator(uuid), policy.c.key.in_(list(unset))))
            self._put(connection, uuid, Origin.OPERATOR, checked)
            check_agree(_operator(connection, uuid), checked)

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """Make these all the wishes of one origin. Writes nothing where they are so already.

        :raises PolicyError: on an unknown key or value
        """
        checked = parse_policy(values.items())
        before = self.read(uuid)
        if uuid not in before.unreadable and before.inputs.get(uuid, {}).get(origin, {}) == checked:
            return
        with self._database.write() as connection:
            connection.execute(delete(policy).where(policy.c.domain_uuid == uuid, policy.c.origin == str(origin)))
            self._put(connection, uuid, origin, checked)

    def inputs(self, uuid: str | None = None) -> dict[str, Inputs]:
        """Every wish of every VM (or of one), by UUID and origin.

        :raises StoreDamaged: on a key, value or origin that does not exist
        """
        found = self.read(uuid)
        for what in found.unreadable.values():
            raise StoreDamaged(what)
        return found.inputs

    def read(self, uuid: str | None = None) -> StoredPolicies:
        """The same, for who can do without one VM's: what does not exist is told by VM, and all else is there."""
        if uuid is not None:
            return self.of([uuid])
        with self._database.read() as connection:
            return read_wishes(connection.execute(_WISHES).all())

    def of(self, uuids: Iterable[str]) -> StoredPolicies:
        """Every wish of these VMs, as `read` has it."""
        rows: list[Sequence[Any]] = []
        with self._database.read() as connection:
            for some in parts(uuids):
                rows += connection.execute(_WISHES.where(policy.c.domain_uuid.in_(some))).all()
        return read_wishes(rows)

    def _put(self, connection: Connection, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        for key, value in values.items():
            upsert(connection, policy, wish_row(uuid, origin, key, value, self._clock()))


def forget_gone(connection: Connection, now: float) -> None:
    """Drop the wishes of VMs that have been gone for long by ``now`` (unix seconds), and note which are there."""
    there = policy.c.domain_uuid.in_(select(domain.c.uuid))
    connection.execute(update(policy).where(there, policy.c.set_at < now - SEEN_EVERY).values(set_at=now))
    # With a history it was here, whenever its wishes were set. What a controller wishes it forgets by itself.
    known = (domain.c.uuid, domain_history.c.uuid, central_policy.c.domain_uuid)
    gone = [~exists().where(column == policy.c.domain_uuid) for column in known]
    connection.execute(delete(policy).where(policy.c.set_at < now - FORGET_AFTER, *gone))


def _of_operator(uuid: str) -> tuple[ColumnElement[bool], ...]:
    return policy.c.domain_uuid == uuid, policy.c.origin == str(Origin.OPERATOR)


def _operator(connection: Connection, uuid: str) -> dict[str, str]:
    query = select(policy.c.key, policy.c.value).where(*_of_operator(uuid))
    return {row.key: row.value for row in connection.execute(query)}
