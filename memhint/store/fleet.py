"""Many hosts in one store: which report is the newest of each, who has gone silent, and what happened, each once.

Every transaction locks the rows of the hosts that it decides about, so that any number of controllers may do the same
at the same time. Silence is judged by one clock, the database's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlalchemy import Connection, delete, func, select

from memhint.objects.counted import counted
from memhint.objects.epoch import epoch_rank
from memhint.objects.event import Event
from memhint.objects.history import HistoryPoint
from memhint.objects.lever import LeverName
from memhint.objects.reclaim import Reclaim, ReclaimRequest
from memhint.objects.report import STALE_PERIODS, Report
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store import codec, revisions
from memhint.store.clock import AHEAD, database_clock, is_past
from memhint.store.engine import Database
from memhint.store.errors import NOT_AWAY, StoreError
from memhint.store.events import Events
from memhint.store.history import History
from memhint.store.parts import parts
from memhint.store.reclaims import MOST_OPEN, Reclaims
from memhint.store.retention import proven
from memhint.store.rows.lines import Seen
from memhint.store.summaries import Summaries
from memhint.store.tables import host, host_event, report
from memhint.store.thinning import drop
from memhint.store.upsert import add_new, upsert

_NOBODY = "(rehearsal)"  # no host's name: whatever is written of it is taken back
DRIFT = 5e-4  # seconds per second by which two clocks may run apart
_POISON_SPAN = 600.0  # seconds in which refused messages of one sender are one event
_Work = Callable[[Connection, Sequence[str]], Sequence[str]]


def _raise(_: str, error: StoreError) -> None:
    raise error


class _TakenBack(Exception):
    """Ends a transaction of which nothing is to be kept."""


class HostEventKind(StrEnum):
    """What happened to a host, as the controllers saw it."""

    APPEARED = "appeared"
    RESTARTED = "restarted"  # another life of its agent
    SILENT = "silent"  # nothing for three periods: its data count for nothing
    RETURNED = "returned"
    LOST = "lost"  # its spool was full: history or events are missing
    POISON = "poison"  # it sent what is no message of memhint, or more than is taken of one host
    MIGRATION = "migration"  # Nova was asked to move a VM away from it
    CAPACITY = "capacity"  # its allocation ratio was written, or was not, and why


_AN_HOUR = {
    **dict.fromkeys((HostEventKind.RESTARTED, HostEventKind.RETURNED, HostEventKind.SILENT, HostEventKind.LOST), 12),
    HostEventKind.CAPACITY: 60,
}
"""Events that a host can bring about by what it says, and how many of them an hour are kept."""


@dataclass(frozen=True, slots=True)
class HostEvent:
    """One of them. ``at`` is unix seconds on the database's clock."""

    at: float
    host: str
    kind: HostEventKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class HostState:
    """A host as the fleet knows it. Times are unix seconds on the database's clock; ``lost`` is points and events.

    ``spool`` is the one that ``lost`` was counted by, as far as its agent tells.
    """

    name: str
    epoch: str
    sequence: int
    period: float
    heard: float
    clock_begin: float
    silent: bool
    lost: int
    spool: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """A report, and the seconds for which its agent had lived when it was made; with its text where that is there.

    ``held`` is the seconds that it waited here, since it came.
    """

    report: Report
    clock: float
    document: str | None = None
    held: float = 0.0


@dataclass(frozen=True, slots=True)
class HostRecord:
    """History and events of a host, how many of both it had to drop so far, and what became of requests.

    ``spool`` is what counts the drops, and ``epoch`` the life of the agent that tells.
    """

    host: str
    points: tuple[HistoryPoint, ...]
    events: tuple[Event, ...]
    lost: int
    reclaims: tuple[Reclaim, ...] = ()
    epoch: str = ""
    spool: str = ""


class Fleet:
    """The hosts in the store. ``keep`` is the seconds for which their events stay.

    Every method raises StoreError when the database fails.
    """

    def __init__(
        self,
        database: Database,
        history: History,
        events: Events,
        summaries: Summaries,
        reclaims: Reclaims,
        keep: float,
        clock: Callable[[Connection], float] = database_clock,
    ) -> None:
        self._database = database
        self._history = history
        self._events = events
        self._summaries = summaries
        self._reclaims = reclaims
        self._keep = keep
        self._clock = clock

    def take(self, states: Sequence[State], records: Sequence[HostRecord] = ()) -> tuple[Report, ...]:
        """Keep what is new of a batch. What is older than what is known, or known already, changes nothing.

        Returns the reports that are the newest of their hosts now.

        :raises StoreRefused: when the database does not accept something in it
        """
        return self._database.transact(lambda connection: self._take(connection, states, records))

    def rehearse(self) -> None:
        """Whether the database takes the like of what hosts tell: something of everything is written, and taken back.

        :raises StoreError: when it does not
        """
        try:
            self._database.transact(self._rehearse)
        except _TakenBack:
            return

    def sweep(
        self, listened: float | None = None, refused: Callable[[str, StoreError], None] = _raise
    ) -> tuple[str, ...]:
        """Mark the hosts that were silent for three periods; those that were not marked before.

        Requests to reclaim that no agent tells of any more are ended too.

        :param listened: the seconds for which what hosts say could be kept; None where that was never otherwise
        :param refused: is told of each host or request of which the database refuses what is to be written, and why;
            the others are marked nevertheless
        """
        with self._database.read() as connection:
            names = self._quiet(connection, listened)
        silenced = self._apart(names, self._silence, refused)
        after: str | None = ""
        while after is not None:
            with self._database.read() as connection:
                due, after = self._reclaims.due(connection, self._clock(connection), after)
            self._apart(due, self._presume, refused)
        return tuple(silenced)

    def refused(self, user: str, why: str) -> None:
        """Note that a message of this sender was refused: once in ten minutes."""
        with self._database.write() as connection:
            _note(connection, [_poison(user, why, self._clock(connection))])

    def tell(self, name: str, kind: HostEventKind, detail: str) -> None:
        """Note what happened to a host just now."""
        with self._database.write() as connection:
            _note(connection, [HostEvent(self._clock(connection), name, kind, detail)])

    def hosts(self) -> tuple[HostState, ...]:
        """Every host, by name."""
        with self._database.read() as connection:
            return _hosts(connection, None)

    def happened_lately(self, name: str, kind: HostEventKind, seconds: float) -> bool:
        """Whether this happened to a host within so many seconds, by the database's clock, whatever else did since."""
        with self._database.read() as connection:
            past = is_past(host_event.c.at, self._clock(connection), seconds)
            query = select(host_event.c.id).where(host_event.c.host == name, host_event.c.kind == str(kind), ~past)
            return connection.execute(query.limit(1)).first() is not None

    def tidy(self) -> None:
        """Thin out what has grown old, of every host. Any number of processes may do it at any time."""
        with self._database.write() as connection:
            now = self._clock(connection)
            revisions.tidy(connection, now)
            if not proven(connection, now, self._history.keep.raw):
                return
            self._reclaims.tidy(connection, now)
        # One that fails keeps none of the others from its turn.
        with ExitStack() as turns:
            turns.callback(drop, self._database, host_event.c.at, now - self._keep)
            for tidy in (self._summaries.tidy, self._history.tidy, self._events.tidy):
                turns.callback(tidy, now)

    def forget(self, keep: float) -> tuple[str, ...]:
        """Drop the hosts that were silent for ``keep`` seconds, with what is known of their VMs; which ones."""

        def work(connection: Connection) -> tuple[str, ...]:
            now = self._clock(connection)
            if not proven(connection, now, self._history.keep.raw):
                return ()
            over = (host.c.silent == 1) & (host.c.heard < now - keep)
            names = sorted(connection.execute(select(host.c.name).where(over)).scalars())
            gone = [one.name for one in _locked(connection, names) if one.silent and one.heard < now - keep]
            for some in parts(gone):
                for table, column in ((report, report.c.host), (host, host.c.name)):
                    connection.execute(delete(table).where(column.in_(some)))
            self._summaries.forget(connection, gone, now)
            return tuple(gone)

        return self._database.transact(work)

    def _apart(self, names: Sequence[str], work: _Work, refused: Callable[[str, StoreError], None]) -> Sequence[str]:
        """What comes of the work on all of these in one transaction; where one spoils it, on each in its own."""
        if not names:
            return ()
        try:
            return self._database.transact(lambda connection: work(connection, names))
        except NOT_AWAY as error:
            if len(names) == 1:
                refused(names[0], error)
                return ()
        return [done for name in names for done in self._apart([name], work, refused)]

    def _presume(self, connection: Connection, names: Sequence[str]) -> Sequence[str]:
        self._reclaims.presume(connection, self._clock(connection), names)
        return names

    def _rehearse(self, connection: Connection) -> None:
        now = self._clock(connection)
        _locked(connection, [_NOBODY])
        upsert(connection, report, {"host": _NOBODY, "epoch": "", "sequence": 0, "at": now, "document": "{}"})
        self._history.add(connection, [(_NOBODY, HistoryPoint(now, 0, 0, 0, 0, 0, 0, 0, None))])
        verdict = Verdict(Answer.PENDING, Reason.NONE)
        self._events.add(connection, [Event(now, _NOBODY, _NOBODY, LeverName.LADDER, "", verdict)])
        asked = ReclaimRequest(_NOBODY, _NOBODY, None, 0.0, 1.0, _NOBODY, _NOBODY, now, now + 1.0)
        self._reclaims.record(connection, [(_NOBODY, Reclaim(asked))])
        _note(connection, [HostEvent(now, _NOBODY, HostEventKind.LOST)])
        raise _TakenBack

    def _take(
        self, connection: Connection, states: Sequence[State], records: Sequence[HostRecord]
    ) -> tuple[Report, ...]:
        now = self._clock(connection)
        names = sorted({one.report.host for one in states} | {one.host for one in records})
        known = {one.name: one for one in _locked(connection, names)}
        before = dict(known)
        records, ahead = _of_now(records, now)
        newest: dict[str, State] = {}
        happened: list[HostEvent] = []
        for one in states:
            name = one.report.host
            after = _heard(known[name], one, now)
            if after is None:
                continue
            happened += _changes(known[name], after, now)
            known[name], newest[name] = after, one
        lost: Counter[str] = Counter()  # of a host and a kind one event of a moment is kept
        for record in records:
            known[record.host], more = _dropped(known[record.host], record)
            lost[record.host] += more
        for name, number in (+lost).items():
            detail = counted(number, "point or event", "points and events")
            happened.append(HostEvent(now, name, HostEventKind.LOST, detail))
        upsert(connection, report, *map(_document, newest.values()))
        upsert(connection, host, *(_row(one) for name, one in known.items() if one != before[name]))
        self._history.add(connection, [(record.host, point) for record in records for point in record.points])
        self._events.add(connection, [event for record in records for event in record.events])
        many = self._reclaims.record(connection, [(record.host, one) for record in records for one in record.reclaims])
        _note(connection, [*happened, *_left_out(ahead, many, now)])
        seen = [Seen(one.report, known[name].heard, known[name].silent) for name, one in newest.items()]
        self._summaries.write(connection, seen, now)
        return tuple(one.report for one in newest.values())

    def _quiet(self, connection: Connection, listened: float | None) -> Sequence[str]:
        now = self._clock(connection)
        # One that lies as far ahead was heard before the clock was set back, and not since.
        old = is_past(host.c.heard, now, STALE_PERIODS * host.c.period)
        over = (host.c.silent == 0) & (host.c.epoch != "") & old
        if listened is not None:
            over &= STALE_PERIODS * host.c.period <= listened
        return sorted(connection.execute(select(host.c.name).where(over)).scalars())

    def _silence(self, connection: Connection, names: Sequence[str]) -> Sequence[str]:
        now = self._clock(connection)
        # The rows may have changed until they were locked: what is decided, is decided from them.
        quiet = [one for one in _locked(connection, names) if not one.silent and _is_over(one, now)]
        upsert(connection, host, *(_row(replace(one, silent=True)) for one in quiet))
        _note(connection, [HostEvent(now, one.name, HostEventKind.SILENT, _since(one, now)) for one in quiet])
        names = [one.name for one in quiet]
        self._summaries.silence(connection, names, now)
        return names


def _heard(known: HostState, new: State, now: float) -> HostState | None:
    """The host after this report; None where the report is not newer than the one that is known."""
    made, came = new.report, now - new.held
    if made.epoch == known.epoch:
        if made.sequence <= known.sequence:
            return None
        # How long a report was under way is unknown. The one that was fastest tells best when this life began; the
        # bound moves with the time, because two clocks never run alike.
        begin = min(known.clock_begin + DRIFT * max(0.0, now - known.heard), came - new.clock)
        if begin + new.clock < came - STALE_PERIODS * made.period:
            # The broker gives nobody what is as old as that: since the bound was found a clock has been set, or the
            # host was not running. What was known of its life says nothing any more.
            begin = came - new.clock
    elif epoch_rank(made.epoch) > epoch_rank(known.epoch) or known.silent:
        # Reports expire within three periods, so what comes from a silent host was made lately, whatever it is called.
        begin = came - new.clock
    else:
        return None
    heard = min(now, begin + new.clock)
    still = heard + STALE_PERIODS * made.period < now
    return HostState(
        made.host, made.epoch, made.sequence, made.period, heard, begin, known.silent and still, known.lost, known.spool
    )


def _dropped(known: HostState, record: HostRecord) -> tuple[HostState, int]:
    """The host after this record, and how many it has dropped of which nobody was told."""
    if record.spool in ("", known.spool):
        return replace(known, lost=max(known.lost, record.lost)), max(0, record.lost - known.lost)
    if record.epoch != known.epoch:
        # It may be of a life that is over, and of its spool. If not, the next record tells the same, and more.
        return known, 0
    if known.spool is None:
        # Whether it is the spool of before, nobody knows. Its count does not fall, so with a smaller one it is not.
        return replace(known, lost=record.lost, spool=record.spool), max(0, record.lost - known.lost)
    return replace(known, lost=record.lost, spool=record.spool), record.lost


def _of_now(records: Sequence[HostRecord], now: float) -> tuple[list[HostRecord], Counter[str]]:
    """The records without what is of a moment far ahead, which would never grow old; how much that was, by host."""
    kept: list[HostRecord] = []
    ahead: Counter[str] = Counter()
    for record in records:
        points = tuple(one for one in record.points if one.at <= now + AHEAD)
        events = tuple(one for one in record.events if one.at <= now + AHEAD)
        reclaims = tuple(one for one in record.reclaims if one.request.at <= now + AHEAD)
        kept.append(replace(record, points=points, events=events, reclaims=reclaims))
        ahead[record.host] += sum(map(len, (record.points, record.events, record.reclaims)))
        ahead[record.host] -= sum(map(len, (points, events, reclaims)))
    return kept, +ahead


def _left_out(ahead: Counter[str], many: Counter[str], now: float) -> Iterable[HostEvent]:
    for name in sorted(ahead | many):
        why = []
        if ahead[name]:
            what = counted(ahead[name], "point, event or request is", "points, events or requests are")
            why.append(f"{what} left out, more than a day ahead: see its clock, and the database's")
        if many[name]:
            why.append(f"{counted(many[name], 'request is', 'requests are')} left out: {MOST_OPEN} have not ended")
        yield _poison(name, "; ".join(why), now)


def _poison(name: str, why: str, now: float) -> HostEvent:
    """One in ten minutes of a host is kept: the others are of the same moment."""
    return HostEvent(now // _POISON_SPAN * _POISON_SPAN, name, HostEventKind.POISON, why)


def _changes(before: HostState, after: HostState, now: float) -> Iterable[HostEvent]:
    if not before.epoch:
        yield HostEvent(now, after.name, HostEventKind.APPEARED)
        return
    if before.epoch != after.epoch:
        yield HostEvent(now, after.name, HostEventKind.RESTARTED, f"epoch {after.epoch}")
    if before.silent and not after.silent:
        yield HostEvent(now, after.name, HostEventKind.RETURNED, _since(before, now))


def _is_over(one: HostState, now: float) -> bool:
    return bool(one.epoch) and abs(now - one.heard) > STALE_PERIODS * one.period


def _since(one: HostState, now: float) -> str:
    if one.heard > now:
        return f"nothing since the database's clock was set back, at a period of {one.period:g} s"
    return f"nothing for {now - one.heard:.0f} s at a period of {one.period:g} s"


def _locked(connection: Connection, names: Sequence[str]) -> tuple[HostState, ...]:
    """These hosts, with no other deciding about them until the transaction ends; new ones are made."""
    add_new(connection, host, *(_row(HostState(name, "", -1, 0.0, 0.0, 0.0, False, 0)) for name in names))
    return _hosts(connection, names)


def _hosts(connection: Connection, names: Sequence[str] | None) -> tuple[HostState, ...]:
    columns = [host.c[name] for name in HostState.__dataclass_fields__]
    query = select(*columns).order_by(host.c.name)
    # Always in the same order: two batches with the same hosts wait for each other instead of ending each other.
    if names is None:
        asked = [query.where(host.c.epoch != "")]
    else:
        asked = [query.where(host.c.name.in_(some)).with_for_update() for some in parts(sorted(names))]
    rows = (row for one in asked for row in connection.execute(one))
    return tuple(HostState(**{**row._mapping, "silent": bool(row.silent)}) for row in rows)


def _row(one: HostState) -> dict[str, object]:
    row = {name: getattr(one, name) for name in HostState.__dataclass_fields__}
    return {**row, "silent": int(one.silent)}


def _document(new: State) -> dict[str, object]:
    made = new.report
    return {
        "host": made.host,
        "epoch": made.epoch,
        "sequence": made.sequence,
        "at": made.at,
        "document": codec.dump(made) if new.document is None else new.document,
    }


def _not_too_often(connection: Connection, happened: Sequence[HostEvent]) -> list[HostEvent]:
    """Without those of which the host has brought about too many: it would fill the table for a year."""
    often = [one for one in happened if one.kind in _AN_HOUR]
    if not often:
        return list(happened)
    since = min(one.at for one in often) - 3600.0
    kept: Counter[tuple[str, str]] = Counter()
    for some in parts(sorted({one.host[:255] for one in often})):
        mine = host_event.c.host.in_(some) & host_event.c.kind.in_(sorted(map(str, _AN_HOUR)))
        query = select(host_event.c.host, host_event.c.kind, func.count()).where(mine, host_event.c.at > since)
        for name, kind, number in connection.execute(query.group_by(host_event.c.host, host_event.c.kind)):
            kept[name, kind] = number
    found = []
    for one in happened:
        if one.kind in _AN_HOUR:
            kept[one.host[:255], str(one.kind)] += 1
            if kept[one.host[:255], str(one.kind)] > _AN_HOUR[one.kind]:
                continue
        found.append(one)
    return found


def _note(connection: Connection, happened: Iterable[HostEvent]) -> None:
    happened = _not_too_often(connection, list(happened))
    rows = [
        {"at": one.at, "host": one.host[:255], "kind": str(one.kind), "detail": one.detail.replace("\0", "")[:1000]}
        for one in happened
    ]
    add_new(connection, host_event, *rows)
