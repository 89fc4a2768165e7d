"""The VMs as lists show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Select, case, func, or_, select

from memhint.objects.domain import DomainState
from memhint.objects.instance import same_host
from memhint.objects.summary import DOMAIN_SORT_KEYS, DomainSummary
from memhint.objects.words import read_word
from memhint.store import revisions
from memhint.store.engine import Database
from memhint.store.errors import MarkerError
from memhint.store.instances import belongs, followed, project_of
from memhint.store.pages import Changes, Order, Page
from memhint.store.rows.revisions import DOMAIN
from memhint.store.tables import domain, host_summary, instance, tombstone

_NAMES = tuple(name for name in DomainSummary.__dataclass_fields__ if name != "at")
_OWN = tuple(domain.c[name] for name in _NAMES)
_CLAIMS = 100  # hosts that say that they have one VM
_PROJECT = "whose"  # in a query: the project by the word that counts


@dataclass(frozen=True, slots=True)
class DomainFilter:
    """Which VMs; None is any. ``name`` is a part of it, as it is written or with A to Z in small or capital letters;
    the others are whole.
    """

    host: str | None = None
    project: str | None = None
    name: str | None = None
    state: DomainState | None = None


EVERY = DomainFilter()


class Domains:
    """A line of each VM of each host's newest report. While one moves, two hosts have it.

    Every method raises StoreError when the database fails.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        which: DomainFilter = EVERY,
        sort: str = "name",
        *,
        descending: bool = False,
        limit: int = 100,
        marker: str | None = None,
    ) -> Page[DomainSummary]:
        """Part of the list, in the order of one of DOMAIN_SORT_KEYS.

        :raises MarkerError: on a marker or an order that there is not
        """
        if sort not in DOMAIN_SORT_KEYS:
            raise MarkerError(f"no list is sorted by {sort[:40]!r}: use {', '.join(DOMAIN_SORT_KEYS)}")
        order = Order(sort, domain.c[sort], (domain.c.uuid, domain.c.host), descending)
        with self._database.read() as connection:
            by_nova = followed(connection)
            # The hosts join a page's lines only, not the many that it is chosen from.
            lines = order.apply(_chosen(select(*_OWN), which, by_nova), marker, limit).subquery()
            whose = project_of(lines.c, by_nova).label(_PROJECT)
            found = select(lines, whose, host_summary.c.at.label("made"))
            found = found.join(host_summary, host_summary.c.name == lines.c.host)
            rows = connection.execute(order.again(found, lines)).all()
        items = tuple(_summary(row) for row in rows[:limit])
        return Page(items, order.marker(rows[limit - 1]) if len(rows) > limit else None)

    def one(self, uuid: str) -> DomainSummary | None:
        """One VM; None where no host has it. Where two have it: where Nova runs it, who is heard, and where it runs."""
        runs = case((domain.c.state == str(DomainState.RUNNING), 0), else_=1)
        with self._database.read() as connection:
            query = _filtered(EVERY, followed(connection)).where(domain.c.uuid == uuid)
            query = query.order_by(host_summary.c.silent, runs, domain.c.revision.desc(), domain.c.host).limit(_CLAIMS)
            found = [_summary(row) for row in connection.execute(query)]
            if len(found) > 1:
                by_nova = connection.execute(select(instance.c.hypervisor).where(instance.c.uuid == uuid)).scalar()
                if by_nova is not None:
                    found.sort(key=lambda one: not same_host(one.host, by_nova))
        return found[0] if found else None

    def token(self) -> str:
        """The token of this moment: what changes from now on is newer."""
        with self._database.read() as connection:
            return str(revisions.newest(connection))

    def changed(self, since: str, which: DomainFilter = EVERY) -> Changes[DomainSummary]:
        """What changed since a token by more than next to nothing, and the UUIDs that no host has any more.

        Of a VM that several hosts have all lines are told where one changed, or one is no more. With a filter, what no
        longer passes it is not told.

        :raises ChangesExpired: where that cannot be told any more
        """
        with self._database.read() as connection:
            number = revisions.since(connection, since)
            token = revisions.newest(connection)
            # A VM that left one host and is on another one has not changed there.
            left = select(tombstone.c.name).where(tombstone.c.kind == DOMAIN, tombstone.c.revision > number)
            every = domain.alias()
            moved = select(every.c.uuid).where(every.c.revision > number)
            query = _filtered(which, followed(connection)).where(or_(domain.c.uuid.in_(moved), domain.c.uuid.in_(left)))
            rows = connection.execute(query.order_by(domain.c.uuid, domain.c.host)).all()
            gone = left.where(tombstone.c.name.not_in(select(domain.c.uuid)))
            deleted = tuple(connection.execute(gone.order_by(tombstone.c.name)).scalars())
        return Changes(tuple(map(_summary, rows)), deleted, str(token))


def _filtered(which: DomainFilter, by_nova: bool) -> Select[Any]:
    whose = project_of(domain.c, by_nova).label(_PROJECT)
    query = select(*_OWN, whose, host_summary.c.at.label("made"))
    return _chosen(query.join(host_summary, host_summary.c.name == domain.c.host), which, by_nova)


def _chosen(query: Select[Any], which: DomainFilter, by_nova: bool) -> Select[Any]:
    if which.project is not None:
        query = query.where(belongs(which.project, by_nova))
    for name in ("host", "state"):
        wanted = getattr(which, name)
        if wanted is not None:
            query = query.where(domain.c[name] == str(wanted))
    if which.name:
        # SQLite, and PostgreSQL with LC_CTYPE=C, have small letters for A to Z only.
        in_small = func.lower(domain.c.name).contains(which.name.lower(), autoescape=True)
        query = query.where(or_(in_small, domain.c.name.contains(which.name, autoescape=True)))
    return query


def _summary(row: Row[Any]) -> DomainSummary:
    found = row._mapping
    values = {name: found[name] for name in _NAMES}
    more = {"state": read_word(DomainState, values["state"]), "project": found[_PROJECT]}
    return DomainSummary(**{**values, **more}, at=found["made"])
