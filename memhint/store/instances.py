"""The project and host of each VM, as Nova says. Where Nova is followed, what hosts say of that does not count.

Controllers take turns to read Nova's list. Nova is followed from the end of the first list that was read as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, case, delete, null, select, update

from memhint.objects.instance import Instance
from memhint.store import revisions
from memhint.store.clock import database_clock, goes_on
from memhint.store.engine import Database
from memhint.store.parts import parts
from memhint.store.tables import domain, instance, instance_look
from memhint.store.upsert import add_new, upsert_many

TURN = 120.0  # seconds for which a look that says nothing keeps its turn
_FARTHEST = 86_400.0  # seconds that no turn lasts


@dataclass(frozen=True, slots=True)
class InstanceSync:
    """One that has begun. Moments are unix seconds on the database's clock; None: there was none yet."""

    number: int
    begun: float
    last: float | None  # when the last one began that was completed
    whole: float | None  # when the last one began that listed all


class Instances:
    """What Nova told. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, clock: Callable[[Connection], float] = database_clock) -> None:
        self._database = database
        self._clock = clock

    def begin(self, longest: float = _FARTHEST) -> InstanceSync | None:
        """Take the turn to look; None while it is another one's, or too early for the next.

        :param longest: seconds: a turn that would last longer is of a clock that was wrong
        """

        def work(connection: Connection) -> InstanceSync | None:
            now = self._clock(connection)
            add_new(connection, instance_look, {"id": 1, "number": 0, "turn_until": 0.0})
            row = connection.execute(select(instance_look).with_for_update()).one()
            if goes_on(row.turn_until, now, longest):
                return None
            number = row.number + 1
            connection.execute(update(instance_look).values(number=number, turn_until=now + TURN))
            return InstanceSync(number, now, row.last, row.whole)

        return self._database.transact(work)

    def keep(self, look: InstanceSync, found: Sequence[Instance]) -> bool:
        """Keep a part of what a look finds; False where the turn was lost meanwhile, and nothing is kept."""
        there = {one.uuid: one for one in found if not one.gone}
        gone = [one.uuid for one in found if one.gone]

        def work(connection: Connection) -> bool:
            now = self._clock(connection)
            if not self._ours(connection, look, now + TURN):
                return False
            names = ("uuid", "project", "hypervisor")
            before: dict[str, tuple[Any, ...]] = {}
            for some in parts([*there, *gone]):
                query = select(*(instance.c[name] for name in names)).where(instance.c.uuid.in_(some))
                before |= {row.uuid: tuple(row) for row in connection.execute(query)}
            news = [
                one.uuid for one in there.values() if before.get(one.uuid) != (one.uuid, one.project, one.hypervisor)
            ]
            news += [uuid for uuid in gone if uuid in before]
            for some in parts(gone):
                connection.execute(delete(instance).where(instance.c.uuid.in_(some)))
            rows = [{**{name: getattr(one, name) for name in names}, "look": look.number} for one in there.values()]
            upsert_many(connection, instance, rows)
            _told(connection, news, now)
            return True

        return self._database.transact(work)

    def missing(self, look: InstanceSync) -> tuple[Instance, ...]:
        """Those that are known and that this look has not found."""
        query = select(instance.c.uuid, instance.c.project, instance.c.hypervisor).where(instance.c.look < look.number)
        with self._database.read() as connection:
            return tuple(Instance(*row) for row in connection.execute(query))

    def end(self, look: InstanceSync, *, whole: bool, pause: float) -> None:
        """It is complete.

        :param whole: it has listed all that there is, so the others are no more
        :param pause: seconds until the next one
        """

        def work(connection: Connection) -> None:
            now = self._clock(connection)
            if not self._ours(connection, look, now + pause):
                return
            values: dict[str, object] = {"last": look.begun}
            if whole:
                values["whole"] = look.begun
                old = instance.c.look < look.number
                news = list(connection.execute(select(instance.c.uuid).where(old)).scalars())
                connection.execute(delete(instance).where(old))
                _told(connection, news, now)
            connection.execute(update(instance_look).values(**values))

        self._database.transact(work)

    def leave(self) -> None:
        """Follow Nova no longer: the hosts' word counts again."""

        def work(connection: Connection) -> None:
            connection.execute(delete(instance))
            connection.execute(delete(instance_look))

        self._database.transact(work)

    def followed(self) -> bool:
        """Whether a whole list was read, and so what hosts say of their VMs' projects does not count."""
        with self._database.read() as connection:
            return followed(connection)

    def of(self, uuid: str) -> Instance | None:
        """What Nova says of a VM; None where it knows none, or is not followed."""
        query = select(instance.c.uuid, instance.c.project, instance.c.hypervisor).where(instance.c.uuid == uuid)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else Instance(*row)

    @staticmethod
    def _ours(connection: Connection, look: InstanceSync, until: float) -> bool:
        mine = update(instance_look).where(instance_look.c.number == look.number).values(turn_until=until)
        return connection.execute(mine).rowcount == 1


def followed(connection: Connection) -> bool:
    """Whether Nova says whose VMs are: since its first whole list was kept."""
    return connection.execute(select(instance_look.c.whole)).scalar() is not None


def project_of(line: Any, by_nova: bool) -> ColumnElement[Any]:
    """Whose the VM of a line is, in SQL. Without Nova it has no owner while hosts say different things of it.

    :param line: the columns of ``domain``, or of a part of it
    :param by_nova: as ``followed`` says
    """
    if by_nova:
        return select(instance.c.project).where(instance.c.uuid == line.uuid).scalar_subquery()
    return case((_disputed(line), null()), else_=line.project)


def belongs(project: str, by_nova: bool) -> ColumnElement[bool]:
    """Whether the VM of a line of ``domain`` is this project's, in SQL."""
    if by_nova:
        return domain.c.uuid.in_(said_to_belong(project, by_nova))
    return (domain.c.project == project) & ~_disputed(domain.c)


def said_to_belong(project: str, by_nova: bool) -> Select[tuple[str]]:
    """The VMs of which somebody says that they are this project's, in SQL: by these, what is told of them is found."""
    table = instance if by_nova else domain
    return select(table.c.uuid).where(table.c.project == project)


def told_by_its_host(host: Any, uuid: Any, project: str, by_nova: bool) -> ColumnElement[bool]:
    """Whether the VM that a host told something of is this project's, and one that the host has now, in SQL.

    What a host tells of VMs that it does not even say that it has is for nobody but operators.

    :param host: the column of what was told that has its host; ``uuid``: the one that has the VM
    """
    one = select(domain.c.uuid).where(domain.c.host == host, domain.c.uuid == uuid, belongs(project, by_nova))
    return one.correlate(host.table).exists()


def _disputed(line: Any) -> ColumnElement[bool]:
    other = domain.alias()
    return (
        select(other.c.uuid)
        .where(other.c.uuid == line.uuid, other.c.project.is_distinct_from(line.project))
        .correlate_except(other)
        .exists()
    )


def _told(connection: Connection, uuids: Sequence[str], now: float) -> None:
    """Lines of these VMs show something else now: who asks for changes is told."""
    if uuids:
        number = revisions.take(connection, now)
        for some in parts(uuids):
            connection.execute(update(domain).where(domain.c.uuid.in_(some)).values(revision=number))
