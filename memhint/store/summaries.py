"""Writes the lines of hosts and VMs as reports come: in a few statements for any number of hosts.

Most VMs do much the same from one report to the next. Those that moved by less than a quantum are not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, select, update

from memhint.objects.summary import DomainSummary, domain_summaries
from memhint.store import revisions
from memhint.store.clock import AHEAD
from memhint.store.domain_history import DomainHistory
from memhint.store.parts import parts
from memhint.store.rows.lines import Seen, domain_line, fingerprint, host_line
from memhint.store.rows.revisions import DOMAIN, HOST
from memhint.store.tables import domain
from memhint.store.tables import host_summary as table
from memhint.store.upsert import prepare_many


class Summaries:
    """The writer. Its caller has the hosts' rows locked until the transaction ends.

    Every method raises StoreError when the database fails.
    """

    def __init__(self, history: DomainHistory) -> None:
        self._history = history

    def write(self, connection: Connection, seen: Sequence[Seen], now: float) -> None:
        """Keep the lines of these reports, one per host, in the caller's transaction.

        :param now: unix seconds on the database's clock
        """
        if not seen:
            return
        names = [one.report.host for one in seen]
        before: dict[str, float] = {}
        for some in parts(names):
            made = connection.execute(select(table.c.name, table.c.at).where(table.c.name.in_(some)))
            before |= {row.name: row.at for row in made}
        there = _fingerprints(connection, names)
        lines: list[DomainSummary] = []
        points: list[DomainSummary] = []
        for one in seen:
            found = {line.uuid: line for line in domain_summaries(one.report)}  # each once, whatever a report says
            lines += found.values()
            if abs(one.report.at - now) <= AHEAD and self._history.due(
                one.report.host, before.get(one.report.host), one.report.at
            ):
                points += found.values()
        rows = [(line, fingerprint(line)) for line in lines]
        changed = [row for row in rows if there.pop((row[0].host, row[0].uuid), None) != row[1]]
        disputed = _disputed(connection, points)
        self._history.add(connection, [one for one in points if one.uuid not in disputed])
        write_hosts = prepare_many(connection, table, list(map(host_line, seen)), late=("revision",))
        write_domains = prepare_many(connection, domain, [domain_line(*row) for row in changed], late=("revision",))
        # From here on no other can tell of changes: whatever takes time is done.
        number = revisions.take(connection, now)
        write_hosts(revision=number)
        write_domains(revision=number)
        _remove(connection, there, number, now)

    def silence(self, connection: Connection, names: Sequence[str], now: float) -> None:
        """Mark hosts as silent, in the caller's transaction."""
        if names:
            number = revisions.take(connection, now)
            for some in parts(names):
                connection.execute(update(table).where(table.c.name.in_(some)).values(silent=1, revision=number))

    def forget(self, connection: Connection, names: Sequence[str], now: float) -> None:
        """Drop hosts and their VMs, in the caller's transaction."""
        if names:
            number = revisions.take(connection, now)
            _remove(connection, _fingerprints(connection, names), number, now)
            for some in parts(names):
                connection.execute(delete(table).where(table.c.name.in_(some)))
            revisions.bury(connection, HOST, names, number, now)

    def tidy(self, now: float) -> None:
        """Thin out the history of VMs that has grown old by ``now`` (unix seconds)."""
        self._history.tidy(now)


def _disputed(connection: Connection, points: Sequence[DomainSummary]) -> frozenset[str]:
    """UUIDs of VMs that another host tells of, too: which of them it is on is not known, and a course is of one VM.

    A host that is silent has none: its VMs may have been evacuated.
    """
    hosts: dict[str, set[str]] = {}
    for one in points:
        hosts.setdefault(one.uuid, set()).add(one.host)
    for some in parts(list(hosts)):
        query = select(domain.c.uuid, domain.c.host).join(table, table.c.name == domain.c.host)
        for uuid, host in connection.execute(query.where(domain.c.uuid.in_(some), table.c.silent == 0)):
            hosts[uuid].add(host)
    return frozenset(uuid for uuid, names in hosts.items() if len(names) > 1)


def _fingerprints(connection: Connection, names: Sequence[str]) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for some in parts(names):
        query = select(domain.c.host, domain.c.uuid, domain.c.fingerprint).where(domain.c.host.in_(some))
        found |= {(host, uuid): known for host, uuid, known in connection.execute(query)}
    return found


def _remove(connection: Connection, gone: Iterable[tuple[str, str]], number: int, now: float) -> None:
    by_host: dict[str, list[str]] = {}
    for host, uuid in gone:
        by_host.setdefault(host, []).append(uuid)
    for host, uuids in by_host.items():
        for some in parts(uuids):
            connection.execute(delete(domain).where(domain.c.host == host, domain.c.uuid.in_(some)))
    revisions.bury(connection, DOMAIN, {uuid for uuids in by_host.values() for uuid in uuids}, number, now)
