"""The agent's side of RabbitMQ: a thread that sends what the cycle hands over, for as long as there is a broker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from memhint.bus.commands import Handler, answer
from memhint.bus.envelope import JSON, Envelope, MessageKind, encode
from memhint.bus.errors import BusError
from memhint.bus.link import LOST, LinkSettings, Reconnects, connect, user_of, within
from memhint.bus.record import Record
from memhint.bus.spool import Spool, Waiting
from memhint.bus.topology import REPLY, REPORT, command_queue
from memhint.objects import codec
from memhint.objects.codec import RecordDamaged
from memhint.objects.event import Event
from memhint.objects.history import HistoryPoint, point_of
from memhint.objects.lever import LeverState
from memhint.objects.reclaim import Reclaim
from memhint.objects.report import STALE_PERIODS, Report

LOG = logging.getLogger(__name__)

_TICK = 1.0  # seconds, at most, between two looks at what there is to send
_LISTEN_AGAIN = 30.0  # seconds until the command queue is tried again that another connection still held
_AT_ONCE = 500  # points and events of one message
_PERSISTENT = 2


class _NoRoom(BusError):
    """The broker refuses a message."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of the reports so far. A state that a newer one replaced, or that grew too old, is no loss."""

    connected: bool = False
    states: int = 0
    replaced: int = 0
    expired: int = 0
    records: int = 0
    waiting: int = 0
    lost: int = 0


class RabbitPublisher:
    """A Publisher and an Audit. Neither of their methods waits for the network or raises."""

    def __init__(
        self,
        settings: LinkSettings,
        host: str,
        epoch: str,
        spool: Spool,
        *,
        flush: float = 60.0,
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        """:param flush: seconds for which points of the history wait for each other; events do not wait
        :param handlers: what commands do, by name
        """
        self._settings = settings
        self._answer = settings.answer
        self._host = host
        self._epoch = epoch
        self._spool = spool
        self._flush = flush
        self._handlers = dict(handlers or {})
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._state: tuple[Report, float] | None = None  # the newest that was not sent, and its place on the clock
        self._sequence = 0
        self._urgent = False
        self._flushed = 0.0
        self._refused = Reconnects(settings.backoff_max)
        self._full_until: float | None = None  # records rest until then: the broker had no room for the last one
        self._counts = Sent()
        self._user = ""
        self._stop = threading.Event()
        self._connection: pika.BlockingConnection | None = None
        self._thread = threading.Thread(target=self._run, name="bus", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def publish(self, report: Report) -> None:
        """Send a report as soon as the broker takes it, unless a newer one comes before."""
        with self._lock:
            if self._state is not None:
                self._counts = replace(self._counts, replaced=self._counts.replaced + 1)
            self._state = (report, self._clock())
            self._sequence = report.sequence
        self._spool.put("point", codec.dump(point_of(report)))
        self._wake()

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Send pulls whose verdict changed, once and surely, as far as the spool reaches."""
        for one in states:
            event = Event(at, host, one.subject, one.lever, one.desired, one.verdict)
            self._spool.put("event", codec.dump(event))
            self._urgent = True
        self._wake()

    def reclaim(self, reclaim: Reclaim) -> None:
        """Send how far a request has come, as surely as an event."""
        self._spool.put("reclaim", codec.dump(reclaim))
        self._urgent = True
        self._wake()

    @property
    def counts(self) -> Sent:
        """What became of the reports so far."""
        return replace(self._counts, waiting=len(self._spool), lost=self._spool.lost)

    def close(self, patience: float = 2.0) -> None:
        """Send what can be sent within ``patience`` seconds, and end. What is left stays in the spool."""
        self._urgent = True
        self._stop.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(patience)
        self._spool.close()

    def _clock(self) -> float:
        return time.monotonic() - self._began

    def _wake(self) -> None:
        connection = self._connection
        if connection is not None:
            with suppress(*LOST):  # it may close this moment; the thread knows
                connection.add_callback_threadsafe(lambda: None)

    def _run(self) -> None:
        reconnects = Reconnects(self._settings.backoff_max)
        while not self._stop.is_set():
            try:
                user = user_of(self._settings)
                connection = connect(self._settings)
                try:
                    self._connection = connection
                    self._serve(connection, user, reconnects)
                finally:
                    self._connection = None
                    self._connected(False)
                    _close(connection)
            except (BusError, *LOST) as error:
                LOG.warning("no broker for now, %d things wait: %s", len(self._spool), error or repr(error))
            except Exception:
                LOG.exception("the bus failed")  # a defect here must not keep the agent from its broker for ever
            self._stop.wait(reconnects.wait())

    def _serve(self, connection: pika.BlockingConnection, user: str, reconnects: Reconnects) -> None:
        channel = self._confirming(connection)
        self._user = user
        commands = self._listen(connection)
        retry = self._clock() + _LISTEN_AGAIN
        self._connected(True)
        LOG.info("connected to the broker as %s", user)
        while True:
            last = self._stop.is_set()
            self._send_state(channel, user)
            taken = self._send_records(channel, user)
            reconnects.reset()
            if last:
                return
            if not taken:
                # In a cluster whose node has just died the broker may believe of a channel, for as long as that node is
                # dead, that the queue is full.
                channel = self._confirming(connection, instead=channel)
            if commands is not None and not commands.consumer_tags:  # pika tells it in no other way
                LOG.warning("the broker has ended the consumer of commands, it is begun again")
                _close(commands)
                commands = None
            if commands is None and self._clock() >= retry:
                commands, retry = self._listen(connection), self._clock() + _LISTEN_AGAIN
            connection.process_data_events(_TICK)

    def _confirming(
        self, connection: pika.BlockingConnection, instead: BlockingChannel | None = None
    ) -> BlockingChannel:
        with within(connection, self._answer):
            if instead is not None:
                _close(instead)
            channel = connection.channel()
            channel.confirm_delivery()
        return channel

    def _connected(self, now: bool) -> None:
        with self._lock:  # `publish` counts too, on another thread
            self._counts = replace(self._counts, connected=now)

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts = replace(self._counts, **{name: getattr(self._counts, name) + 1})

    def _send_state(self, channel: BlockingChannel, user: str) -> None:
        with self._lock:
            taken, self._state = self._state, None
        if taken is None:
            return
        report, clock = taken
        left = STALE_PERIODS * report.period - (self._clock() - clock)
        if left <= 0:
            self._count("expired")
            return
        envelope = Envelope(MessageKind.STATE, self._host, self._epoch, report.sequence, clock, report)
        try:
            self._publish(channel, user, envelope, expiration=str(max(1, int(left * 1000))))
        except BaseException:
            with self._lock:
                self._state = self._state or taken  # again on the next connection, if none newer came
            raise
        self._count("states")

    def _send_records(self, channel: BlockingChannel, user: str) -> bool:
        """Send what is due; False where the broker refused it."""
        now = time.monotonic()
        if not len(self._spool) or not (self._urgent or now - self._flushed >= self._flush or self._stop.is_set()):
            return True
        if self._full_until is not None and now < self._full_until and not self._stop.is_set():
            return True
        self._urgent = False
        while waiting := self._spool.first(_AT_ONCE):
            record, unread = _record(waiting, self._spool.lost, self._spool.mark)
            if unread:
                LOG.error("%d things in the spool cannot be read, they are dropped", unread)
            envelope = Envelope(MessageKind.RECORD, self._host, self._epoch, self._sequence, self._clock(), record)
            try:
                self._publish(channel, user, envelope)
            except _NoRoom as error:  # for records, which stay in the spool: states and commands go on
                if self._full_until is None:
                    LOG.warning("%s %d things wait", error, len(self._spool))
                self._full_until = now + self._refused.wait()
                self._urgent = True
                return False
            except BaseException:
                self._urgent = True  # on the next connection, too
                raise
            self._full_until = None
            self._refused.reset()
            self._count("records")
            # What stays there would be sent again at once, and again: it is, but not before the next turn.
            if not self._spool.remove(waiting) or len(waiting) < _AT_ONCE:
                break
            if self._state is not None and not self._stop.is_set():
                self._urgent = True  # the rest comes after the report that waits
                return True
        self._flushed = now
        return True

    def _publish(self, channel: BlockingChannel, user: str, envelope: Envelope, expiration: str | None = None) -> None:
        body, encoding = encode(envelope)
        properties = pika.BasicProperties(
            content_type=JSON,
            content_encoding=encoding,
            delivery_mode=_PERSISTENT,
            user_id=user,  # the broker refuses a name that is not the connection's
            expiration=expiration,
        )
        try:
            with within(channel.connection, self._answer):
                channel.basic_publish(REPORT, str(envelope.kind), body, properties, mandatory=True)
        except UnroutableError as error:
            raise BusError("no controller takes reports on this broker yet: start memhint controller") from error
        except NackError as error:
            raise _NoRoom(f"the broker has no room for a {envelope.kind}: are the controllers running?") from error

    def _listen(self, connection: pika.BlockingConnection) -> BlockingChannel | None:
        """Take commands. Without them the reports go on: the queue may still be held by a connection that died."""
        queue = command_queue(self._host)
        try:
            with within(connection, self._answer):
                channel = connection.channel()
                channel.queue_declare(queue, exclusive=True, auto_delete=True)
                channel.basic_consume(queue, self._on_command, auto_ack=True)
        except ChannelClosedByBroker as error:
            LOG.warning("no commands on this connection: %s", error)
            return None
        return channel

    def _on_command(self, channel: BlockingChannel, _: Any, properties: pika.BasicProperties, body: bytes) -> None:
        reply = answer(body, properties.content_encoding, self._epoch, self._handlers)
        if not properties.reply_to or not properties.correlation_id:
            return
        to = pika.BasicProperties(content_type=JSON, correlation_id=properties.correlation_id, user_id=self._user)
        channel.basic_publish(REPLY, properties.reply_to, reply, to)


def _record(waiting: Iterable[Waiting], lost: int, spool: str) -> tuple[Record, int]:
    points, events, unread = [], [], 0
    reclaims: dict[str, Reclaim] = {}
    for one in waiting:
        try:
            if one.kind == "point":
                points.append(codec.parse_as(one.text, HistoryPoint))
            elif one.kind == "reclaim":
                reclaim = codec.parse_as(one.text, Reclaim)
                reclaims[reclaim.request.id] = reclaim  # of several, the newest tells all
            else:
                events.append(codec.parse_as(one.text, Event))
        except RecordDamaged:
            unread += 1
    return Record(tuple(points), tuple(events), lost + unread, tuple(reclaims.values()), spool), unread


def _close(one: pika.BlockingConnection | BlockingChannel) -> None:
    try:
        if one.is_open:
            one.close()
    except Exception as error:  # noqa: BLE001  it is gone either way
        LOG.debug("closing: %s", error)
