"""What a consumer does of which its broker is not to blame; with a real broker: tests/functional/test_bus.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memhint.bus.envelope import Envelope
from memhint.bus.link import LinkSettings
from memhint.bus.rabbit_consumer import RabbitConsumer


class Handler:
    """Counts its ticks."""

    def __init__(self) -> None:
        self.ticks = 0

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        """Nothing comes."""
        raise AssertionError(batch)

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
