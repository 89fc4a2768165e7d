"""Operators' wishes that the fleet's store holds for a VM, whatever host it is on.

A VM is held here from the first wish that is made for it here. From then on its hosts are told what an operator wishes,
and what somebody set on the host itself does not last. Nothing of that is taken over: a host can say anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

from memhint.objects.policy import Origin, check_agree, parse_policy
from memhint.store import revisions
from memhint.store.clock import database_clock
from memhint.store.engine import Database
from memhint.store.parts import parts
from memhint.store.retention import proven
from memhint.store.tables import central_policy, domain, policy
from memhint.store.upsert import upsert

_DAY = 86400.0  # seconds


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that an operator wishes for one VM. Newer ones have a larger version."""

    uuid: str
    version: int
    values: Mapping[str, str]


class CentralPolicies:
    """The wishes of the fleet's store. Every method raises StoreError when the database fails."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[Connection], float] = database_clock,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._clock = clock
        self._wall = wall

    def set(self, uuid: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> Wishes:
        """Change wishes for one VM, all or none.

        :raises PolicyError: on an unknown key or value, or where they would contradict each other
        """
        checked, dropped = parse_policy(values.items()), set(unset)

        def changed(old: Mapping[str, str]) -> Mapping[str, str]:
            new = {**{key: value for key, value in old.items() if key not in dropped}, **checked}
            check_agree(new, checked)
            return new

        return self._change(uuid, changed)

    def clear(self, uuid: str) -> Wishes:
        """Take all wishes for one VM back, those too that cannot be read. It is held here all the same."""
        return self._change(uuid, lambda _: {})

    def of(self, uuid: str) -> Wishes | None:
        """The wishes for one VM; None where it is not held here."""
        with self._database.read() as connection:
            return _held(connection, [uuid]).get(uuid)

    def on(self, hosts: Sequence[str]) -> dict[str, dict[str, Wishes]]:
        """The wishes for the VMs that these hosts have, by host and UUID; hosts without any are not there."""
        with self._database.read() as connection:
            places: list[tuple[str, str]] = []
            for some in parts(hosts):
                query = select(domain.c.host, domain.c.uuid).where(
                    domain.c.host.in_(some), domain.c.uuid.in_(select(central_policy.c.domain_uuid))
                )
                places += [(row.host, row.uuid) for row in connection.execute(query)]
            held = _held(connection, sorted({uuid for _, uuid in places}))
        found: dict[str, dict[str, Wishes]] = {}
        for host, uuid in places:
            if uuid in held:
                found.setdefault(host, {})[uuid] = held[uuid]
        return found

    def prune(self, keep: float) -> int:
        """Forget the wishes for VMs that no host has had for ``keep`` seconds; for how many."""

        def work(connection: Connection) -> int:
            now = self._clock(connection)
            if not proven(connection, now, _DAY):
                return 0
            there = central_policy.c.domain_uuid.in_(select(domain.c.uuid))
            # Not all of them each time: whoever changes a wish would wait for it.
            while_ago = central_policy.c.seen < now - keep / 24
            connection.execute(update(central_policy).where(there, while_ago).values(seen=now))
            # Locked: one that is wished again meanwhile stays.
            old = select(central_policy.c.domain_uuid).where(~there, central_policy.c.seen < now - keep)
            gone = connection.execute(old.with_for_update()).scalars().all()
            for some in parts(gone):
                for table in (policy, central_policy):
                    connection.execute(delete(table).where(table.c.domain_uuid.in_(some)))
            return len(gone)

        return self._database.transact(work)

    def _change(self, uuid: str, changed: Callable[[Mapping[str, str]], Mapping[str, str]]) -> Wishes:
        def work(connection: Connection) -> Wishes:
            version = revisions.take(connection, self._clock(connection))  # others that change wishes wait here
            held = _held(connection, [uuid]).get(uuid)
            wishes = Wishes(uuid, version, changed({} if held is None else held.values))
            self._write(connection, wishes)
            return wishes

        return self._database.transact(work)

    def _write(self, connection: Connection, wishes: Wishes) -> None:
        row = {"domain_uuid": wishes.uuid, "version": wishes.version, "seen": self._clock(connection)}
        upsert(connection, central_policy, row)
        mine = (policy.c.domain_uuid == wishes.uuid) & (policy.c.origin == str(Origin.OPERATOR))
        connection.execute(delete(policy).where(mine))
        fixed = {"domain_uuid": wishes.uuid, "origin": str(Origin.OPERATOR), "set_at": self._wall()}
        upsert(connection, policy, *({**fixed, "key": key, "value": value} for key, value in wishes.values.items()))


def _held(connection: Connection, uuids: Sequence[str]) -> dict[str, Wishes]:
    mine = (policy.c.domain_uuid == central_policy.c.domain_uuid) & (policy.c.origin == str(Origin.OPERATOR))
    query = select(central_policy.c.domain_uuid, central_policy.c.version, policy.c.key, policy.c.value)
    query = query.select_from(central_policy).outerjoin(policy, mine)
    values: dict[str, dict[str, str]] = {}
    versions: dict[str, int] = {}
    for some in parts(uuids):
        for row in connection.execute(query.where(central_policy.c.domain_uuid.in_(some))):
            versions[row.domain_uuid] = row.version
            wished = values.setdefault(row.domain_uuid, {})
            if row.key is not None:
                wished[row.key] = row.value
    return {uuid: Wishes(uuid, versions[uuid], values[uuid]) for uuid in versions}
