"""Writes the lines of hosts and VMs as reports come: in a few statements for any number of hosts.

Most VMs do much the same from one report to the next. Those that moved by less than a quantum are not written again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sqlalchemy import Connection, delete, select, update

from memhint.objects.report import Report
from memhint.objects.summary import RECLAIMABLE, DomainSummary, HostSummary, domain_summaries, host_summary
from memhint.objects.units import MIB
from memhint.store import revisions
from memhint.store.domain_history import DomainHistory
from memhint.store.tables import DOMAIN_SIZES, HOST_SIZES, domain
from memhint.store.tables import host_summary as table
from memhint.store.upsert import Row, prepare_many

_PARTS = 1024  # of a VM's memory: less than one of these, or than a MiB, is no change
_WORDS = ("name", "project", "state", "qos", "demand_reason", "source", "agreement")
_PLAIN = (
    "provider",
    "forced_ratio",
    "slot_overhead",
    "epoch",
    "sequence",
    "at",
    "period",
    "agent",
    "ksm_saving",
    "psi",
    "domains",
    "gaps",
)
_SUMS = ("reported", "unreported", "returned")


@dataclass(frozen=True, slots=True)
class Seen:
    """A report, when it was made by the database's clock, and whether its host counts as silent nevertheless."""

    report: Report
    heard: float
    silent: bool = False


class Summaries:
    """The writer. Its caller has the hosts' rows locked until the transaction ends."""

    def __init__(self, history: DomainHistory) -> None:
        self._history = history

    def write(self, connection: Connection, seen: Sequence[Seen], now: float) -> None:
        """Keep the lines of these reports, one per host, in the caller's transaction.

        :param now: unix seconds on the database's clock
        """
        if not seen:
            return
        names = [one.report.host for one in seen]
        made = connection.execute(select(table.c.name, table.c.at).where(table.c.name.in_(names)))
        before = {row.name: row.at for row in made}
        there = _fingerprints(connection, names)
        lines: list[DomainSummary] = []
        points: list[DomainSummary] = []
        for one in seen:
            found = {line.uuid: line for line in domain_summaries(one.report)}  # each once, whatever a report says
            lines += found.values()
            if self._history.due(one.report.host, before.get(one.report.host), one.report.at):
                points += found.values()
        rows = [(line, _fingerprint(line)) for line in lines]
        changed = [row for row in rows if there.pop((row[0].host, row[0].uuid), None) != row[1]]
        self._history.add(connection, points)
        write_hosts = prepare_many(connection, table, list(map(_host, seen)), late=("revision",))
        write_domains = prepare_many(connection, domain, [_domain(*row) for row in changed], late=("revision",))
        # From here on no other can tell of changes: whatever takes time is done.
        number = revisions.take(connection, now)
        write_hosts(revision=number)
        write_domains(revision=number)
        _remove(connection, there, number, now)

    def silence(self, connection: Connection, names: Sequence[str], now: float) -> None:
        """Mark hosts as silent, in the caller's transaction."""
        if names:
            number = revisions.take(connection, now)
            connection.execute(update(table).where(table.c.name.in_(names)).values(silent=1, revision=number))

    def forget(self, connection: Connection, names: Sequence[str], now: float) -> None:
        """Drop hosts and their VMs, in the caller's transaction."""
        if names:
            number = revisions.take(connection, now)
            _remove(connection, _fingerprints(connection, names), number, now)
            connection.execute(delete(table).where(table.c.name.in_(names)))
            revisions.bury(connection, revisions.HOST, names, number, now)

    def tidy(self, now: float) -> None:
        """Thin out the history of VMs that has grown old by ``now`` (unix seconds).

        :raises StoreError: when the database fails
        """
        self._history.tidy(now)


def _fingerprints(connection: Connection, names: Sequence[str]) -> dict[tuple[str, str], int]:
    query = select(domain.c.host, domain.c.uuid, domain.c.fingerprint).where(domain.c.host.in_(names))
    return {(host, uuid): fingerprint for host, uuid, fingerprint in connection.execute(query)}


def _remove(connection: Connection, gone: Iterable[tuple[str, str]], number: int, now: float) -> None:
    by_host: dict[str, list[str]] = {}
    for host, uuid in gone:
        by_host.setdefault(host, []).append(uuid)
    for host, uuids in by_host.items():
        connection.execute(delete(domain).where(domain.c.host == host, domain.c.uuid.in_(uuids)))
    revisions.bury(connection, revisions.DOMAIN, {uuid for uuids in by_host.values() for uuid in uuids}, number, now)


def _fingerprint(line: DomainSummary) -> int:
    quantum = max(MIB, line.assigned // _PARTS)
    parts: list[object] = [line.assigned, *(getattr(line, name) for name in _WORDS)]
    for name in DOMAIN_SIZES:
        size = getattr(line, name)
        parts.append(size if size is None else size // quantum)
    return int.from_bytes(blake2b(repr(parts).encode(errors="replace"), digest_size=8).digest(), signed=True)


def _host(one: Seen) -> Row:
    line: HostSummary = host_summary(one.report, one.heard)
    row: dict[str, object] = {name: getattr(line, name) for name in (*HOST_SIZES, *_PLAIN, *_SUMS)}
    for lever in RECLAIMABLE:
        row[f"reclaimable_{lever}"] = line.reclaimable[lever]
    return {
        **row,
        "name": line.name,
        "silent": int(one.silent),
        "heard": one.heard,
        "agent": None if line.agent is None else line.agent[:64],
        "bound": str(line.bound),
        "admitting": int(line.admitting),
        "detail": line.detail.replace("\0", "")[:1000],
        "rungs": ",".join(line.rungs),
    }


def _domain(line: DomainSummary, fingerprint: int) -> Row:
    row: dict[str, object] = {name: getattr(line, name) for name in ("uuid", "host", "assigned", *DOMAIN_SIZES)}
    for name in _WORDS:
        word = getattr(line, name)
        row[name] = word if word is None else str(word).replace("\0", "")[:255]
    return {**row, "fingerprint": fingerprint}
