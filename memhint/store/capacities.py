"""What memhint has done about each provider's allocation ratio, and whose turn it is to write one.

Any number of controllers may decide at once. Before one writes, it says so here, in a transaction that looks once more
at the host: a plan that is not the newest one any more is not carried out, and no other writes until it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import Connection, select

from memhint.objects.epoch import epoch_rank
from memhint.objects.provider import SAME, ProviderRecord, Tenure
from memhint.store.clock import database_clock, goes_on
from memhint.store.engine import Database
from memhint.store.tables import capacity, host
from memhint.store.upsert import add_new

TURN = 90.0  # seconds for which a writer that says nothing keeps its turn: longer than one request may take

_FIELDS = tuple(ProviderRecord.__dataclass_fields__)
_OF_ONE = select(*(capacity.c[name] for name in _FIELDS))


class Capacities:
    """The standings in the store. Every method raises StoreError when the database fails."""

    def __init__(self, database: Database, clock: Callable[[Connection], float] = database_clock) -> None:
        self._database = database
        self._clock = clock

    def all(self) -> tuple[ProviderRecord, ...]:
        """Every provider that memhint ever came to, by host."""
        query = select(*(capacity.c[name] for name in _FIELDS)).order_by(capacity.c.host, capacity.c.provider)
        with self._database.read() as connection:
            return tuple(_standing(row._mapping) for row in connection.execute(query))

    def one(self, provider: str) -> ProviderRecord | None:
        """The standing of one provider now."""
        with self._database.read() as connection:
            row = connection.execute(_OF_ONE.where(capacity.c.provider == provider)).first()
        return None if row is None else _standing(row._mapping)

    def adopt(
        self, provider: str, name: str, ratio: float, *, written: float | None = None, again: bool = False
    ) -> ProviderRecord:
        """Remember the ratio that was found, once; the standing as it is then.

        :param written: what memhint is known to have written before, where that is not here any more
        :param again: forget what was written and why it stopped, as an operator asks for. The ratio found first stays.
            Nothing else takes a released provider back
        """

        def work(connection: Connection) -> ProviderRecord:
            now = self._clock(connection)
            new = ProviderRecord(provider, name, ratio, written, at=now)
            add_new(connection, capacity, {**_row(new), "holder": "", "turn_until": 0.0})
            found = self._locked(connection, provider)
            assert found is not None
            if again or found.host != name:
                left, intended = (ratio, None) if again else (found.written, found.intended)
                new = ProviderRecord(provider, name, found.adopted, left, intended, at=now)
                if found.tenure is Tenure.RELEASED and not again:
                    new = replace(new, tenure=found.tenure, detail=found.detail)
                found = new
                _update(connection, found)
            return found

        return self._database.transact(work)

    def begin(
        self,
        standing: ProviderRecord,
        intended: float | None,
        holder: str,
        read: ProviderRecord | None = None,
        *,
        vouched: bool = True,
    ) -> bool:
        """Take the turn to write for the plan that ``standing`` names; False where it is not ours to write.

        That is so while somebody else writes, after a newer plan was carried out, where the host's newest report is
        not that plan's any more, and where something was written or begun since ``read``.

        :param intended: the one ratio that may come to stand there without a confirmation
        :param read: the standing as it was here, where ``standing`` says more of what was written
        :param vouched: False where no report speaks of the provider any more: then ``standing`` names the plan that
            was carried out last, and that the host goes on reporting is no reason to wait
        """
        before = read or standing

        def work(connection: Connection) -> bool:
            now = self._clock(connection)
            row = connection.execute(
                select(capacity).where(capacity.c.provider == standing.provider).with_for_update()
            ).first()
            if row is None or row.tenure == Tenure.RELEASED:
                return False
            if row.holder not in ("", holder) and goes_on(row.turn_until, now, TURN):
                return False
            if not (_alike(row.written, before.written) and _alike(row.intended, before.intended)):
                return False
            asked = select(host.c.epoch, host.c.sequence).where(host.c.name == standing.host)
            newest = connection.execute(asked).first() if vouched else None
            if newest is not None and (newest.epoch, newest.sequence) != (standing.epoch, standing.sequence):
                return False
            # Which life of an agent is its newest, the fleet has judged: it also takes one whose epoch went back.
            heard = newest is not None and standing.epoch != row.epoch
            if not heard and _rank(standing) < (epoch_rank(row.epoch), row.sequence):
                return False
            ratios = {"written": standing.written, "intended": intended}
            plan = {"epoch": standing.epoch, "sequence": standing.sequence}
            turn = {"holder": holder, "turn_until": now + TURN}
            connection.execute(
                capacity.update().where(capacity.c.provider == standing.provider).values(**ratios, **plan, **turn)
            )
            return True

        return self._database.transact(work)

    def end(self, provider: str, holder: str, ratio: float | None, tenure: Tenure, detail: str) -> None:
        """Give the turn back. ``ratio`` is what was written and confirmed, None where that is not known.

        A provider that was released in this turn stays so.
        """

        def work(connection: Connection) -> None:
            found = self._locked(connection, provider)
            values: dict[str, object] = {"at": self._clock(connection)}
            if found is not None and found.tenure is not Tenure.RELEASED:
                values |= {"tenure": str(tenure), "detail": detail[:1000]}
            if ratio is not None:
                values |= {"written": ratio, "intended": None}
            ours = (capacity.c.provider == provider) & (capacity.c.holder == holder)
            connection.execute(capacity.update().where(ours).values(**values, holder="", turn_until=0.0))

        self._database.transact(work)

    def note(self, provider: str, tenure: Tenure, detail: str) -> bool:
        """Say how memhint stands to a provider without writing; whether that is news. One that is released stays so."""

        def work(connection: Connection) -> bool:
            found = self._locked(connection, provider)
            if found is None or found.tenure is Tenure.RELEASED:
                return False
            if found.tenure is tenure and found.detail == detail[:1000]:
                return False
            _update(connection, replace(found, tenure=tenure, detail=detail[:1000], at=self._clock(connection)))
            return True

        return self._database.transact(work)

    def release(self, provider: str, detail: str) -> ProviderRecord | None:
        """Have nobody begin to write any more; the standing as it is then, None where memhint never came there.

        Who is in its turn may still write ``intended``, and nothing else.

        :param detail: how far the way back is; it takes the place of an earlier one
        """

        def work(connection: Connection) -> ProviderRecord | None:
            found = self._locked(connection, provider)
            if found is not None and (found.tenure, found.detail) != (Tenure.RELEASED, detail[:1000]):
                found = replace(found, tenure=Tenure.RELEASED, detail=detail[:1000], at=self._clock(connection))
                _update(connection, found)
            return found

        return self._database.transact(work)

    def _locked(self, connection: Connection, provider: str) -> ProviderRecord | None:
        row = connection.execute(_OF_ONE.where(capacity.c.provider == provider).with_for_update()).first()
        return None if row is None else _standing(row._mapping)


def _rank(standing: ProviderRecord) -> tuple[object, int]:
    return epoch_rank(standing.epoch), standing.sequence


def _alike(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) < SAME)


def _standing(row: object) -> ProviderRecord:
    values = dict(row)  # type: ignore[call-overload]
    return ProviderRecord(**{**values, "tenure": Tenure(values["tenure"])})


def _row(one: ProviderRecord) -> dict[str, object]:
    return {**{name: getattr(one, name) for name in _FIELDS}, "tenure": str(one.tenure)}


def _update(connection: Connection, one: ProviderRecord) -> None:
    row = _row(one)
    connection.execute(capacity.update().where(capacity.c.provider == row.pop("provider")).values(**row))
