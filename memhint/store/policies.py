"""All wishes for each VM, by origin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from memhint.objects.policy import KEYS, Origin, PolicyError, parse_policy
from memhint.store.engine import Database
from memhint.store.errors import StoreDamaged
from memhint.store.tables import policy
from memhint.store.upsert import upsert

Inputs = dict[Origin, dict[str, str]]


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """What can be read of the wishes, and what cannot."""

    inputs: dict[str, Inputs]  # by UUID and origin
    unreadable: dict[str, str]  # by UUID: which wish, in words


class Policies:
    """Policies in the store, keyed by domain UUID. Values are checked on their way in and on their way out."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    def set(self, uuid: str, origin: Origin, key: str, value: str) -> None:
        """Keep one wish.

        :raises PolicyError: on an unknown key or value
        :raises StoreError: when the database fails
        """
        checked = parse_policy([(key, value)])
        with self._database.write() as connection:
            self._put(connection, uuid, origin, checked)

    def unset(self, uuid: str, origin: Origin, key: str) -> None:
        """Forget one wish; it is no error where there is none.

        :raises StoreError: when the database fails
        """
        with self._database.write() as connection:
            _drop(connection, uuid, origin, [key])

    def set_operator(self, uuid: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> None:
        """Change an operator's wishes for one VM, all or none.

        :raises PolicyError: on an unknown key or value
        :raises StoreError: when the database fails
        """
        checked = parse_policy(values.items())
        with self._database.write() as connection:
            _drop(connection, uuid, Origin.OPERATOR, unset)
            self._put(connection, uuid, Origin.OPERATOR, checked)

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """Make these all the wishes of one origin. Writes nothing where they are so already.

        :raises PolicyError: on an unknown key or value
        :raises StoreError: when the database fails
        """
        checked = parse_policy(values.items())
        before = self.read(uuid)
        if uuid not in before.unreadable and before.inputs.get(uuid, {}).get(origin, {}) == checked:
            return
        with self._database.write() as connection:
            connection.execute(delete(policy).where(policy.c.domain_uuid == uuid, policy.c.origin == str(origin)))
            self._put(connection, uuid, origin, checked)

    def forget(self, uuid: str) -> None:
        """Drop every wish for a VM that is no more.

        :raises StoreError: when the database fails
        """
        with self._database.write() as connection:
            connection.execute(delete(policy).where(policy.c.domain_uuid == uuid))

    def inputs(self, uuid: str | None = None) -> dict[str, Inputs]:
        """Every wish of every VM (or of one), by UUID and origin.

        :raises StoreDamaged: on a key, value or origin that does not exist
        :raises StoreError: when the database fails
        """
        found = self.read(uuid)
        for what in found.unreadable.values():
            raise StoreDamaged(what)
        return found.inputs

    def read(self, uuid: str | None = None) -> StoredPolicies:
        """The same, for who can do without one VM's: what does not exist is told by VM, and all else is there.

        :raises StoreError: when the database fails
        """
        query = select(policy.c.domain_uuid, policy.c.origin, policy.c.key, policy.c.value)
        if uuid is not None:
            query = query.where(policy.c.domain_uuid == uuid)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        found = StoredPolicies({}, {})
        for domain, origin, key, value in rows:
            try:
                where, checked = Origin(origin), KEYS[key].check(value)
            except (KeyError, PolicyError, ValueError, AttributeError, TypeError):
                found.unreadable[domain] = (
                    f"the stored policy {key}={value} ({origin}) of {domain} does not exist in this memhint; "
                    "it is of another version or damaged"
                )
                continue
            found.inputs.setdefault(domain, {}).setdefault(where, {})[key] = checked
        return found

    def _put(self, connection: Connection, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        for key, value in values.items():
            row = {
                "domain_uuid": uuid,
                "origin": str(origin),
                "key": key,
                "value": str(value),
                "set_at": self._clock(),
            }
            upsert(connection, policy, row)


def _drop(connection: Connection, uuid: str, origin: Origin, keys: Iterable[str]) -> None:
    connection.execute(
        delete(policy).where(policy.c.domain_uuid == uuid, policy.c.origin == str(origin), policy.c.key.in_(list(keys)))
    )
