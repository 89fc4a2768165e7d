from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lab import waiting
from memhint.bus import asker, courier
from memhint.bus.asker import Asker
from memhint.bus.commands import CommandStatus, Reply
from memhint.bus.courier import Command, Courier
from memhint.bus.errors import BusError, HostAway
from memhint.bus.link import LinkSettings

SETTINGS = LinkSettings(("amqp://a:b@127.0.0.1:1/x",), backoff_max=0.01)


class Broker:
    """What every Commander of a test speaks to."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []
        self.away: set[str] = set()
        self.failures = 0
        self.made = 0
        self.open = threading.Event()
        self.open.set()

    def __call__(self, _: LinkSettings) -> Broker:
        self.made += 1
        if not self.open.wait(60):
            raise AssertionError("nobody opened it")
        return self

    def tell(self, host: str, name: str, arguments: Any, **_: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise BusError("it went away")
        if host in self.away:
            raise HostAway(host)
        self.told.append((host, arguments["n"]))

    def ask(self, host: str, name: str, arguments: Any, **words: Any) -> Reply:
        self.tell(host, name, arguments, **words)
        return Reply(CommandStatus.DONE, "epoch")

    def rest(self) -> None:
        """Nothing is asked."""

    def close(self) -> None:
        """Nothing is open."""


def command(number: int, host: str = "host-a", about: str = "vm") -> Command:
    return Command(host, "policy", about, {"n": number})


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(courier, "Commander", made)
    monkeypatch.setattr(asker, "Commander", made)
    return made


@pytest.fixture
def sender(broker: Broker) -> Iterator[Courier]:
    made = Courier(SETTINGS, 1.0)
    made.start()
    yield made
    made.close(60)
    assert not made.alive


def wait_for(broker: Broker, number: int) -> None:
    waiting.wait_for(lambda: len(broker.told) >= number, 60, f"{number} commands")


def test_a_newer_command_takes_the_place_of_one_that_waits(broker: Broker, sender: Courier) -> None:
    broker.open.clear()
    for number in range(3):
        sender.send(command(number))
    sender.send(command(9, about="another vm"))
    broker.open.set()
    wait_for(broker, 2)
    assert broker.told == [("host-a", 2), ("host-a", 9)]


def test_a_host_that_is_away_keeps_nobody_waiting(broker: Broker, sender: Courier) -> None:
    broker.away = {"host-b"}
    sender.send(command(1, "host-b"))
    sender.send(command(2))
    wait_for(broker, 1)
    assert broker.told == [("host-a", 2)]
    assert broker.made == 1


def test_after_a_broken_connection_it_goes_on_with_the_next(broker: Broker, sender: Courier) -> None:
    broker.failures = 1
    sender.send(command(1))
    waiting.wait_for(lambda: not broker.failures, 60, "the failure")
    sender.send(command(2))
    wait_for(broker, 1)
    assert broker.told == [("host-a", 2)]
    assert broker.made == 2


def test_no_connection_is_made_before_there_is_something_to_say(broker: Broker, sender: Courier) -> None:
    assert broker.made == 0


def test_what_waits_is_bounded(broker: Broker, sender: Courier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_MOST", 3)
    broker.open.clear()
    for number in range(5):
        sender.send(command(number, about=str(number)))
    sender.send(command(7, about="0"))  # there is room for what takes another's place
    broker.open.set()
    wait_for(broker, 3)
    assert [number for _, number in broker.told] == [7, 1, 2]


def test_a_question_is_asked_again_where_an_idle_connection_was_ended(broker: Broker) -> None:
    one = Asker(SETTINGS, 1.0)
    assert one.ask(command(1)).outcome is CommandStatus.DONE
    broker.failures = 1
    assert one.ask(command(2)).outcome is CommandStatus.DONE
    assert (broker.told, broker.made) == ([("host-a", 1), ("host-a", 2)], 2)
    one.close()


def test_a_question_that_fails_on_a_new_connection_is_not_asked_again(broker: Broker) -> None:
    broker.failures = 1
    with pytest.raises(BusError):
        Asker(SETTINGS, 1.0).ask(command(1))
    broker.failures = 0
    broker.away = {"host-a"}
    with pytest.raises(HostAway):
        Asker(SETTINGS, 1.0).ask(command(1))
    assert broker.told == []
