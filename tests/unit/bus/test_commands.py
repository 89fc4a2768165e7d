"""Asking agents where the broker fails; with a real broker: tests/functional/test_bus.py."""

from __future__ import annotations

from unittest.mock import MagicMock

import pika
import pytest

from memhint.bus.asker import Asker
from memhint.bus.commands import Commander
from memhint.bus.courier import Command
from memhint.bus.errors import BusError
from memhint.bus.link import LinkSettings

SETTINGS = LinkSettings(("amqp://controller:x@node-0/memhint",))


class HangsUp:
    """A connection that ends as soon as somebody wants a channel of it, as one into a node that is drained does."""

    def __init__(self, error: Exception) -> None:
        self.is_open = True
        self._impl = MagicMock(name="pika's connection")
        self._error = error

    def channel(self) -> None:
        """No channel."""
        raise self._error

    def close(self) -> None:
        """Ended."""
        self.is_open = False


@pytest.mark.parametrize(
    "error",
    [
        pika.exceptions.ConnectionClosedByBroker(320, "CONNECTION_FORCED"),
        pika.exceptions.ChannelClosedByBroker(530, "NOT_ALLOWED - channel_max reached"),
        pika.exceptions.ConnectionBlockedTimeout("memory alarm"),
        ConnectionResetError("reset"),
    ],
)
def test_a_connection_that_gives_no_channel_is_an_error_of_the_bus_and_is_let_go(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    made: list[HangsUp] = []

    def connect(_settings: LinkSettings) -> HangsUp:
        made.append(HangsUp(error))
        return made[-1]

    monkeypatch.setattr("memhint.bus.commands.connect", connect)
    with pytest.raises(BusError, match="went away"):
        Commander(SETTINGS)
    with pytest.raises(BusError, match="went away"):
        Asker(SETTINGS, 1.0).ask(Command("host-a", "look", "", {}))
    assert [one.is_open for one in made] == [False, False]
