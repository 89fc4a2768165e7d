"""The controller's side of RabbitMQ: messages in batches, acknowledged when the handler has kept them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

import pika
from pika.adapters.blocking_connection import BlockingChannel

from memhint.bus.allowance import Allowance
from memhint.bus.envelope import LARGEST, Envelope, decode_text, expand
from memhint.bus.errors import BusError, Poison, TooLong
from memhint.bus.link import LOST, LinkSettings, Reconnects, connect, within
from memhint.bus.topology import DEAD, RECORD, STATE, declare

LOG = logging.getLogger(__name__)

_TICK = 0.5  # seconds, at most, between two looks at what else there is to do
_MEASURE = 10.0  # seconds between two looks at how much waits
_ASK_AGAIN = 2.0  # seconds, at most, until a handler that could keep nothing is asked again: hosts grow stale meanwhile
_RENEW = 120.0  # seconds until a channel is replaced
_SAY_AGAIN = 60.0  # seconds between two lines of the log on that
_CONSUMED = (STATE, RECORD)
_QUEUES = {"state": STATE, "record": RECORD, "dead": DEAD}

T = TypeVar("T")


class HandlerUnavailable(Exception):
    """What the handler needs does not answer: the same messages can be handled later."""


class Handler(Protocol):
    """Who takes the messages. Each of its methods may take long, and none is called while another one is at work."""

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        """Keep a batch; for each message None, or why it can never be kept.

        :raises HandlerUnavailable: when all of it should be tried again
        """

    def ready(self) -> None:
        """Whether messages could be kept now, after some could not.

        :raises HandlerUnavailable: when they could not
        """

    def poison(self, user: str, why: str) -> None:
        """A message was refused; ``user`` sent it, as the broker says."""

    def over(self, user: str) -> None:
        """A message was dropped unread: ``user`` has sent more than one sender may."""

    def tick(self) -> None:
        """Something between two batches. Never raises."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    tag: int
    user: str
    envelope: Envelope


@dataclass(frozen=True, slots=True)
class _Unread:
    queue: str
    tag: int
    properties: pika.BasicProperties
    body: bytes
    came: float


class RabbitConsumer:
    """One consumer among any number; each message goes to one of them, and to another one when that one dies."""

    def __init__(
        self,
        settings: LinkSettings,
        handler: Handler,
        *,
        batch: int,
        stopped: Callable[[], bool],
        waits: Callable[[Mapping[str, int]], None] | None = None,
    ) -> None:
        """:param batch: messages that are handled together, at most
        :param stopped: whether to end; looked at between batches
        :param waits: told now and then how many messages wait in each queue, and of none when the broker is lost
        """
        self._settings = settings
        self._answer = settings.answer
        self._handler = handler
        self._batch = batch
        self._stopped = stopped
        self._waits = waits
        self._measured = -_MEASURE
        self._said = -_SAY_AGAIN
        self._allowance = Allowance()
        self._came: list[_Unread] = []
        self._waiting: list[_Delivery] = []
        self._away = False  # whether the handler could keep nothing when it was last asked to
        self._waited = 0  # records that came while nobody read, and are still to be read
        self._settled: list[int] = []  # tags of what is kept or dropped, and not acknowledged yet
        self._reconnects = Reconnects(settings.backoff_max)
        # A database may take minutes for a batch. Who says nothing to the broker for so long is cut off, and its
        # messages are delivered again, until they count as such that end controllers.
        self._worker = ThreadPoolExecutor(1, "handler")

    def run(self) -> None:
        """Consume until stopped, whatever the broker does."""
        with self._worker:
            self._run()

    def _run(self) -> None:
        while not self._stopped():
            try:
                connection = connect(self._settings)
                try:
                    self._consume(connection)
                finally:
                    self._came.clear()
                    self._waiting.clear()  # not acknowledged, so they are delivered again
                    self._settled.clear()
                    self._measured = -_MEASURE
                    if self._waits is not None:
                        self._waits({})
                    if connection.is_open:
                        connection.close()
            except (BusError, *LOST) as error:
                LOG.warning("no broker for now: %s", error or repr(error))
            except Exception:
                LOG.exception("the bus failed")  # what was not acknowledged is delivered again, a few times at most
            self._pause(self._reconnects.wait())

    def _consume(self, connection: pika.BlockingConnection) -> None:
        with within(connection, self._answer):
            channel = connection.channel()
            declare(channel)
        held = Reconnects(min(_ASK_AGAIN, self._settings.backoff_max))
        while self._away and not self._stopped():
            # The broker takes back what waits for half an hour, or whose connection ends, and counts it as a delivery
            # that failed. So what cannot be kept is not fetched once more.
            try:
                self._beside(connection, self._handler.ready)
                self._away = False
            except HandlerUnavailable as error:
                self._hold(connection, channel, held, f"no message is fetched: {error}")
        with within(connection, self._answer):
            waited = _depth(channel, RECORD)
            self._fetch(channel)
            # A queue whose leader has just died says that it is empty.
            self._waited = max(waited, _depth(channel, RECORD))
        began = time.monotonic()
        LOG.info("connected to the broker")
        while not self._stopped():
            if time.monotonic() - began >= _RENEW and not (self._came or self._waiting or self._settled):
                # As a queue's leader dies the broker may count messages as delivered that never came. It keeps them for
                # a channel until that is closed.
                with within(connection, self._answer):
                    channel.close()
                    channel = connection.channel()
                    self._fetch(channel)
                began = time.monotonic()
            connection.process_data_events(0 if self._came or self._waiting else _TICK)
            # A queue that is deleted or moved, or a channel that is closed, ends a consumer without an error of pika's.
            if len(channel.consumer_tags) < len(_CONSUMED):
                raise BusError("the broker has ended the consumer of a queue: was the queue deleted?")
            told = self._read(channel)
            self._acknowledge(channel)
            self._beside(connection, partial(self._tell, told))
            self._measure(channel)
            if not self._waiting:
                self._reconnects.reset()
                continue
            try:
                self._handle(connection, channel)
                self._acknowledge(channel)
                self._away = False
                held.reset()
            except HandlerUnavailable as error:
                # Kept unacknowledged: giving them back would count as a delivery that failed.
                self._away = True
                self._hold(connection, channel, held, f"{len(self._waiting)} messages wait: {error}")

    def _fetch(self, channel: BlockingChannel) -> None:
        channel.basic_qos(prefetch_count=2 * self._batch)
        for queue in _CONSUMED:
            channel.basic_consume(queue, partial(self._on_message, queue))

    def _hold(self, connection: pika.BlockingConnection, channel: BlockingChannel, held: Reconnects, why: str) -> None:
        if time.monotonic() - self._said >= _SAY_AGAIN:
            self._said = time.monotonic()
            LOG.warning("%s", why)
        until = time.monotonic() + held.wait()
        while not self._stopped() and (left := until - time.monotonic()) > 0:
            connection.process_data_events(min(left, _TICK))
            self._beside(connection, self._handler.tick)
            self._measure(channel)

    def _beside(self, connection: pika.BlockingConnection, work: Callable[[], T]) -> T:
        """What the handler makes of it, on a thread of its own: the broker is heard and answered meanwhile."""

        def wake(_: Future[T]) -> None:
            with suppress(*LOST):  # it may close this moment; the other thread knows
                connection.add_callback_threadsafe(lambda: None)

        done = self._worker.submit(work)
        done.add_done_callback(wake)
        while not done.done():
            connection.process_data_events(_TICK)
        return done.result()

    def _tell(self, told: Sequence[Callable[[], None]]) -> None:
        for one in told:
            one()
        self._handler.tick()

    def _measure(self, channel: BlockingChannel) -> None:
        if self._waits is None or time.monotonic() - self._measured < _MEASURE:
            return
        self._measured = time.monotonic()
        self._waits({name: _depth(channel, queue) for name, queue in _QUEUES.items()})

    def _on_message(
        self, queue: str, _: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes
    ) -> None:
        # Read when the handler rests: until then the broker sends no more than it may without an answer.
        self._came.append(_Unread(queue, method.delivery_tag, properties, body, time.monotonic()))

    def _read(self, channel: BlockingChannel) -> list[Callable[[], None]]:
        """Take up what came; what the handler is to be told of it."""
        came, self._came = self._came, []
        told: list[Callable[[], None]] = []
        for one in came:
            user = one.properties.user_id or ""
            if not self._allowance.open(user, time.monotonic()):
                # As a dead letter it would push out those that tell something.
                self._settled.append(one.tag)
                told.append(partial(self._handler.over, user))
                continue
            waited = one.queue == RECORD and self._waited > 0
            self._waited -= waited
            why = self._unfit(one, user, waited)
            if why is not None:
                channel.basic_reject(one.tag, requeue=False)
                told.append(partial(self._handler.poison, user, why))
        return told

    def _unfit(self, one: _Unread, user: str, waited: bool) -> str | None:
        """Let one message wait for the handler; or why it never can."""
        size = len(one.body)
        try:
            text = expand(one.body, one.properties.content_encoding)
            size = len(text)
            envelope = replace(decode_text(text), came=one.came)
            if user != envelope.host:
                raise Poison(f"user {user!r} reports for host {envelope.host!r}")
        except Poison as error:
            size = LARGEST if isinstance(error, TooLong) else size
            return str(error)
        except Exception as error:  # whatever is in it, the next message is not to blame
            LOG.exception("a message of %r could not be read", user)
            return f"reading it failed: {type(error).__name__}"
        finally:
            self._allowance.charge(user, size, waited=waited)
        self._waiting.append(_Delivery(one.tag, user, envelope))
        return None

    def _handle(self, connection: pika.BlockingConnection, channel: BlockingChannel) -> None:
        batch = self._waiting[: self._batch]
        envelopes = [one.envelope for one in batch]
        answers = self._beside(connection, partial(self._handler.take, envelopes))
        del self._waiting[: len(batch)]
        told: list[Callable[[], None]] = []
        for one, refused in zip(batch, answers, strict=True):
            if refused is None:
                self._settled.append(one.tag)
            else:
                channel.basic_reject(one.tag, requeue=False)
                told.append(partial(self._handler.poison, one.user, refused))
        if told:
            self._beside(connection, partial(self._tell, told))

    def _acknowledge(self, channel: BlockingChannel) -> None:
        """All at once: to the broker one that stands for many is as much work as one. Those before were refused."""
        first = self._waiting[0].tag if self._waiting else None
        ready = [tag for tag in self._settled if first is None or tag < first]
        if ready:
            channel.basic_ack(max(ready), multiple=True)
            self._settled = [tag for tag in self._settled if first is not None and tag > first]

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopped() and (left := until - time.monotonic()) > 0:
            self._worker.submit(self._handler.tick).result()  # after what it may still be at
            time.sleep(min(left, _TICK))


def _depth(channel: BlockingChannel, queue: str) -> int:
    """Messages that wait in a queue."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)
