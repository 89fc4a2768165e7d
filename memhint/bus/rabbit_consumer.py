"""The controller's side of RabbitMQ: messages in batches, acknowledged when the handler has kept them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pika
from pika.adapters.blocking_connection import BlockingChannel

from memhint.bus.allowance import Allowance
from memhint.bus.envelope import LARGEST, Envelope, decode_text, expand
from memhint.bus.errors import BusError, Poison, TooLong
from memhint.bus.link import LOST, LinkSettings, Reconnects, connect
from memhint.bus.topology import DEAD, RECORD, STATE, declare

LOG = logging.getLogger(__name__)

_TICK = 0.5  # seconds, at most, between two looks at what else there is to do
_MEASURE = 10.0  # seconds between two looks at how much waits
_QUEUES = {"state": STATE, "record": RECORD, "dead": DEAD}


class HandlerUnavailable(Exception):
    """What the handler needs does not answer: the same messages can be handled later."""


class Handler(Protocol):
    """Who takes the messages."""

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        """Keep a batch; for each message None, or why it can never be kept.

        :raises HandlerUnavailable: when all of it should be tried again
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
        :param waits: told now and then how many messages wait in each queue
        """
        self._settings = settings
        self._handler = handler
        self._batch = batch
        self._stopped = stopped
        self._waits = waits
        self._measured = -_MEASURE
        self._allowance = Allowance()
        self._waiting: list[_Delivery] = []
        self._settled: list[int] = []  # tags of what is kept or dropped, and not acknowledged yet
        self._reconnects = Reconnects(settings.backoff_max)

    def run(self) -> None:
        """Consume until stopped, whatever the broker does."""
        while not self._stopped():
            try:
                connection = connect(self._settings)
                try:
                    self._consume(connection)
                finally:
                    self._waiting.clear()  # not acknowledged, so they are delivered again
                    self._settled.clear()
                    if connection.is_open:
                        connection.close()
            except (BusError, *LOST) as error:
                LOG.warning("no broker for now: %s", error or repr(error))
            except Exception:
                LOG.exception("the bus failed")  # what was not acknowledged is delivered again, a few times at most
            self._pause(self._reconnects.wait())

    def _consume(self, connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        declare(channel)
        channel.basic_qos(prefetch_count=2 * self._batch)
        for queue in (STATE, RECORD):
            channel.basic_consume(queue, self._on_message)
        LOG.info("connected to the broker")
        held = Reconnects(self._settings.backoff_max)
        while not self._stopped():
            connection.process_data_events(0 if self._waiting else _TICK)
            self._acknowledge(channel)
            self._handler.tick()
            self._measure(channel)
            if not self._waiting:
                self._reconnects.reset()
                continue
            try:
                self._handle(channel)
                self._acknowledge(channel)
                held.reset()
            except HandlerUnavailable as error:
                # Kept unacknowledged: giving them back would count as a delivery that failed.
                LOG.warning("%d messages wait: %s", len(self._waiting), error)
                until = time.monotonic() + held.wait()
                while not self._stopped() and (left := until - time.monotonic()) > 0:
                    connection.process_data_events(min(left, _TICK))
                    self._handler.tick()
                    self._measure(channel)

    def _measure(self, channel: BlockingChannel) -> None:
        if self._waits is None or time.monotonic() - self._measured < _MEASURE:
            return
        self._measured = time.monotonic()
        found = {name: channel.queue_declare(queue, passive=True) for name, queue in _QUEUES.items()}
        self._waits({name: one.method.message_count for name, one in found.items()})

    def _on_message(self, channel: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        user = properties.user_id or ""
        if not self._allowance.open(user, time.monotonic()):
            self._settled.append(method.delivery_tag)  # as a dead letter it would push out those that tell something
            self._handler.over(user)
            return
        size = len(body)
        try:
            text = expand(body, properties.content_encoding)
            size = len(text)
            envelope = decode_text(text)
            if user != envelope.host:
                raise Poison(f"user {user!r} reports for host {envelope.host!r}")
        except Poison as error:
            size = LARGEST if isinstance(error, TooLong) else size
            self._refuse(channel, method.delivery_tag, user, str(error))
            return
        except Exception as error:  # whatever is in it, the next message is not to blame
            LOG.exception("a message of %r could not be read", user)
            self._refuse(channel, method.delivery_tag, user, f"reading it failed: {type(error).__name__}")
            return
        finally:
            self._allowance.charge(user, size)
        self._waiting.append(_Delivery(method.delivery_tag, user, envelope))

    def _handle(self, channel: BlockingChannel) -> None:
        batch = self._waiting[: self._batch]
        answers = self._handler.take([one.envelope for one in batch])
        del self._waiting[: len(batch)]
        for one, refused in zip(batch, answers, strict=True):
            if refused is None:
                self._settled.append(one.tag)
            else:
                self._refuse(channel, one.tag, one.user, refused)

    def _acknowledge(self, channel: BlockingChannel) -> None:
        """All at once: to the broker one that stands for many is as much work as one. Those before were refused."""
        first = self._waiting[0].tag if self._waiting else None
        ready = [tag for tag in self._settled if first is None or tag < first]
        if ready:
            channel.basic_ack(max(ready), multiple=True)
            self._settled = [tag for tag in self._settled if first is not None and tag > first]

    def _refuse(self, channel: BlockingChannel, tag: int, user: str, why: str) -> None:
        channel.basic_reject(tag, requeue=False)
        self._handler.poison(user, why)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopped() and (left := until - time.monotonic()) > 0:
            self._handler.tick()
            time.sleep(min(left, _TICK))
