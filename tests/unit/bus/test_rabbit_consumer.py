"""What a consumer does of which its broker is not to blame; with a real broker: tests/functional/test_bus.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pika
import pytest

from memhint.bus.envelope import Envelope, MessageKind, encode
from memhint.bus.link import LinkSettings, Reconnects
from memhint.bus.rabbit_consumer import HandlerUnavailable, RabbitConsumer
from memhint.bus.record import Record
from memhint.bus.topology import RECORD
from tests.clock import Clock


class Handler:
    """Counts its ticks."""

    def __init__(self) -> None:
        self.ticks = 0

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        """Nothing comes."""
        raise AssertionError(batch)

    def ready(self) -> None:
        """It is."""

    def poison(self, user: str, why: str) -> None:
        """Nothing comes."""
        raise AssertionError(why)

    def over(self, user: str) -> None:
        """Nothing comes."""
        raise AssertionError(user)

    def tick(self) -> None:
        """Something between two batches."""
        self.ticks += 1


def test_a_defect_while_connecting_ends_no_controller(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    def fails(_settings: LinkSettings) -> None:
        nonlocal tries
        tries += 1
        raise KeyError("a defect")

    monkeypatch.setattr("memhint.bus.rabbit_consumer.connect", fails)
    handler = Handler()
    settings = LinkSettings(("amqp://controller:x@node-0/memhint",), backoff_max=0.01)
    RabbitConsumer(settings, handler, batch=10, stopped=lambda: tries > 1).run()
    assert tries == 2
    assert handler.ticks
    assert "the bus failed" in caplog.text


class Broker:
    """A connection and its channel: ``waiting`` records are in the queue, and come as fast as they are read."""

    is_open = True

    def __init__(self, waiting: int, comes: int) -> None:
        self.waiting = waiting
        self.comes = comes
        self.channels = 0
        self._impl = MagicMock(name="pika's connection")
        self.made = MagicMock(name="channel")
        self.made.queue_declare.return_value = SimpleNamespace(method=SimpleNamespace(message_count=waiting))
        self.made.basic_consume.side_effect = self._consume
        self.made.consumer_tags = ["state", "record"]
        self.take: Callable[..., None] | None = None

    def channel(self) -> Any:
        """The one there is, however often."""
        self.channels += 1
        return self.made

    def _consume(self, queue: str, callback: Callable[..., None]) -> None:
        if queue == RECORD:
            self.take = callback

    def process_data_events(self, _seconds: float) -> None:
        """Deliver some."""
        envelope = Envelope(MessageKind.RECORD, "host-a", "epoch-1", 7, 12.5, Record((), (), 0))
        body, encoding = encode(envelope)
        for _ in range(min(50, self.comes)):
            assert self.take is not None
            method = SimpleNamespace(delivery_tag=self.comes)
            self.take(self.made, method, pika.BasicProperties(user_id="host-a", content_encoding=encoding), body)
            self.comes -= 1

    def add_callback_threadsafe(self, _callback: Callable[[], None]) -> None:
        """Nothing waits for it."""

    def close(self) -> None:
        """Nothing is open."""


class Counting(Handler):
    """Counts what it takes, and what was dropped before it could."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = self.dropped = 0

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        """All of it is kept."""
        self.taken += len(batch)
        return [None] * len(batch)

    def over(self, user: str) -> None:
        """One more."""
        self.dropped += 1


@pytest.mark.parametrize("waiting", [6000, 0])
def test_records_that_came_while_no_controller_was_there_are_none_too_many(
    monkeypatch: pytest.MonkeyPatch, waiting: int
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)  # nothing is given back meanwhile
    broker, handler = Broker(waiting, 6000), Counting()
    monkeypatch.setattr("memhint.bus.rabbit_consumer.connect", lambda _settings: broker)
    settings = LinkSettings(("amqp://controller:x@node-0/memhint",), backoff_max=0.01)
    RabbitConsumer(settings, handler, batch=50, stopped=lambda: handler.taken + handler.dropped == 6000).run()
    assert (handler.dropped == 0) == (waiting == 6000)


def test_a_queue_whose_leader_has_just_died_is_asked_once_more_how_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 1000.0)
    broker, handler = Broker(0, 6000), Counting()
    depth = lambda count: SimpleNamespace(method=SimpleNamespace(message_count=count))  # noqa: E731
    broker.made.queue_declare.side_effect = lambda *_, **__: depth(6000 if broker.take else 0)
    monkeypatch.setattr("memhint.bus.rabbit_consumer.connect", lambda _settings: broker)
    settings = LinkSettings(("amqp://controller:x@node-0/memhint",), backoff_max=0.01)
    RabbitConsumer(settings, handler, batch=50, stopped=lambda: handler.taken + handler.dropped == 6000).run()
    assert handler.dropped == 0


class Orphaning(Broker):
    """One that counts what waits as delivered, and delivers nothing until there is another channel."""

    def process_data_events(self, seconds: float) -> None:
        """Deliver on the second channel."""
        if self.channels > 1:
            super().process_data_events(seconds)


def test_what_the_broker_delivered_to_nobody_comes_on_the_next_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1000.0)
    monkeypatch.setattr("time.monotonic", clock)
    broker = Orphaning(0, 50)
    made: list[Broker] = []

    def connect(_settings: LinkSettings) -> Broker:
        made.append(broker)
        return broker

    class Ticking(Counting):
        def tick(self) -> None:
            clock.now += 1.0

    handler = Ticking()
    monkeypatch.setattr("memhint.bus.rabbit_consumer.connect", connect)
    settings = LinkSettings(("amqp://controller:x@node-0/memhint",), backoff_max=0.01)
    RabbitConsumer(settings, handler, batch=50, stopped=lambda: handler.taken == 50 or clock.now > 2000.0).run()
    assert (handler.taken, len(made), broker.channels) == (50, 1, 2)
    assert broker.made.close.call_count == 1


class Away(Counting):
    """One whose store is away until a moment of the clock, which it moves on with each tick."""

    def __init__(self, clock: Clock, until: float) -> None:
        super().__init__()
        self._clock = clock
        self._until = until
        self.kept: float | None = None

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        if self._clock.now < self._until:
            raise HandlerUnavailable("away")
        self.kept = self._clock.now
        return super().take(batch)

    def tick(self) -> None:
        """Half a second."""
        self._clock.sleep(0.5)


def test_what_is_held_is_kept_soon_after_the_store_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1000.0)
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr("memhint.bus.rabbit_consumer.Reconnects", partial(Reconnects, draw=lambda: 1.0))
    monkeypatch.setattr("memhint.bus.rabbit_consumer.connect", lambda _settings: Broker(0, 1))
    handler = Away(clock, until=1070.0)
    settings = LinkSettings(("amqp://controller:x@node-0/memhint",))
    RabbitConsumer(settings, handler, batch=50, stopped=lambda: handler.kept is not None).run()
    assert handler.kept is not None
    assert handler.kept - 1070.0 < 5.0
