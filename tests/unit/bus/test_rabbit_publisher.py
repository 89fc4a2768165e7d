"""What an agent sends when; with a real broker: tests/functional/test_bus.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pika
import pytest

from memhint.bus.link import LinkSettings
from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from tests.unit import builders
from tests.waiting import until

SETTINGS = LinkSettings(("amqp://host-a:x@node-0/memhint",), backoff_max=0.01)


class Broker:
    """Connections to it, and the kinds of what it was given."""

    def __init__(self, on_publish: Callable[[str], None]) -> None:
        self.kinds: list[str] = []
        self.channels = 0
        self.news = threading.Event()
        self._on_publish = on_publish

    def connect(self, _settings: LinkSettings) -> MagicMock:
        """One more."""
        made = MagicMock(name="connection")
        made.channel.side_effect = lambda: self._channel(made)
        made.process_data_events.side_effect = lambda _: time.sleep(0.001)  # a loop that leaves others their turn
        return made

    def _channel(self, connection: MagicMock) -> MagicMock:
        self.channels += 1
        made = MagicMock(name="channel", connection=connection)
        made.basic_publish.side_effect = self._publish
        return made

    def _publish(self, _exchange: str, kind: str, *_: object, **__: object) -> None:
        self.kinds.append(kind)
        self._on_publish(kind)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool.db", 10_000, 2**24)


def publisher(spool: Spool, flush: float = 3600.0) -> RabbitPublisher:
    return RabbitPublisher(SETTINGS, "host-a", "epoch-1", spool, flush=flush)


def fill(agent: RabbitPublisher, number: int) -> None:
    for at in range(number):
        agent.record("host-a", float(at), [builders.lever_state()])


def test_a_report_waits_for_one_message_of_a_long_spool(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = publisher(spool)
    fill(agent, 1500)
    broker = Broker(lambda _: agent.publish(builders.report()) if len(broker.kinds) == 1 else None)
    monkeypatch.setattr("memhint.bus.rabbit_publisher.connect", broker.connect)
    agent.start()
    until(lambda: agent.counts.waiting == 0)
    agent.close()
    assert broker.kinds[:4] == ["record", "state", "record", "record"]


def test_an_event_whose_connection_died_is_sent_at_once_on_the_next(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies_once(_: str) -> None:
        if len(broker.kinds) == 1:
            raise pika.exceptions.StreamLostError("reset")

    agent, broker = publisher(spool), Broker(dies_once)
    agent._flushed = time.monotonic()  # points have just gone
    monkeypatch.setattr("memhint.bus.rabbit_publisher.connect", broker.connect)
    fill(agent, 1)
    agent.start()
    until(lambda: agent.counts.waiting == 0)
    agent.close()
    assert broker.kinds == ["record", "record"]


def test_what_was_refused_is_offered_on_another_channel(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses_once(_: str) -> None:
        if len(broker.kinds) == 1:
            raise pika.exceptions.NackError([])

    agent, broker = publisher(spool), Broker(refuses_once)
    monkeypatch.setattr("memhint.bus.rabbit_publisher.connect", broker.connect)
    fill(agent, 1)
    agent.start()
    until(lambda: agent.counts.waiting == 0)
    agent.close()
    assert broker.channels == 3  # with the one for commands
