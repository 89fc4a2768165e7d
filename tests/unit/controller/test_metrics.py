from __future__ import annotations

from collections.abc import Sequence

import pytest
from prometheus_client.exposition import generate_latest

from memhint.bus.envelope import Envelope, MessageKind
from memhint.bus.rabbit_consumer import HandlerUnavailable
from memhint.bus.record import Record
from memhint.controller.metrics import Counts, Metered
from memhint.metrics.registry import registry_of
from tests.unit import builders
from tests.unit.metrics.families import value


class Fake:
    def __init__(self) -> None:
        self.away = False
        self.told: list[str] = []

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        if self.away:
            raise HandlerUnavailable("the test says so")
        return ["never" if one.sequence == 666 else None for one in batch]

    def ready(self) -> None:
        """It is."""

    def poison(self, user: str, why: str) -> None:
        self.told.append(f"{user}: {why}")

    def tick(self) -> None:
        self.told.append("tick")


def state(sequence: int) -> Envelope:
    return Envelope(MessageKind.STATE, "host-a", "epoch-1", sequence, 1.0, builders.report(sequence=sequence))


RECORD = Envelope(MessageKind.RECORD, "host-a", "epoch-1", 1, 1.0, Record((), (), 0))


def test_what_was_kept_and_what_was_refused_is_counted_and_handed_on() -> None:
    registry, fake = registry_of("controller"), Fake()
    times = iter([10.0, 10.5])
    metered = Metered(fake, registry, lambda: next(times))
    assert metered.take([state(1), state(666), RECORD]) == [None, "never", None]
    metered.poison("host-a", "never")
    metered.tick()
    assert fake.told == ["host-a: never", "tick"]
    metered.waits({"state": 7})
    shown = generate_latest(registry).decode()
    assert value(shown, "memhint_controller_messages_total", kind="state") == 1
    assert value(shown, "memhint_controller_messages_total", kind="record") == 1
    assert value(shown, "memhint_controller_dead_letters_total") == 1
    assert value(shown, "memhint_controller_batch_duration_seconds_sum") == 0.5
    assert value(shown, "memhint_controller_queue_depth", queue="state") == 7


def test_what_waits_is_not_told_any_more_once_the_broker_is_lost() -> None:
    registry = registry_of("controller")
    metered = Metered(Fake(), registry)
    assert value(generate_latest(registry).decode(), "memhint_controller_broker_connected") == 0
    metered.waits({"state": 7})
    assert value(generate_latest(registry).decode(), "memhint_controller_broker_connected") == 1
    metered.waits({})
    shown = generate_latest(registry).decode()
    assert value(shown, "memhint_controller_broker_connected") == 0
    assert "memhint_controller_queue_depth{" not in shown


def test_a_batch_that_waits_for_the_store_counts_as_that_and_as_nothing_else() -> None:
    registry, fake = registry_of("controller"), Fake()
    fake.away = True
    with pytest.raises(HandlerUnavailable):
        Metered(fake, registry).take([state(1)])
    shown = generate_latest(registry).decode()
    assert value(shown, "memhint_controller_store_away_total") == 1
    assert value(shown, "memhint_controller_messages_total", kind="state") == 0
    assert value(shown, "memhint_controller_batch_duration_seconds_count") == 0


def test_sweeps_and_ratios_are_shown_as_those_who_count_them_say() -> None:
    registry = registry_of("controller")
    written, judged = {"written": 4, "conflict": 1}, {"held": 671, "broken": 1}
    registry.register(Counts(lambda: {"sweeps": 9, "silenced": 2, "spoiled": 3}, lambda: written, lambda: judged))
    shown = generate_latest(registry).decode()
    assert value(shown, "memhint_controller_sweeps_total") == 9
    assert value(shown, "memhint_controller_sweep_failures_total") == 0
    assert value(shown, "memhint_controller_sweep_refusals_total") == 3
    assert value(shown, "memhint_controller_hosts_silenced_total") == 2
    assert value(shown, "memhint_controller_ratio_writes_total", outcome="conflict") == 1
    assert value(shown, "memhint_controller_ratio_writes_total", outcome="failed") == 0
    assert value(shown, "memhint_controller_promises_total", outcome="held") == 671
    assert value(shown, "memhint_controller_promises_total", outcome="broken") == 1
