from __future__ import annotations

import logging

import pytest

from memhint.bus.inprocess import InProcessBus
from memhint.bus.publisher import Publisher
from memhint.objects.report import Report
from tests.unit import builders


def _refuse(report: Report) -> None:
    raise RuntimeError("disk full")


def test_subscribers_get_the_report_in_their_order() -> None:
    bus = InProcessBus()
    seen: list[tuple[str, int]] = []
    for name in ("b", "a", "c"):
        bus.subscribe(name, lambda report, name=name: seen.append((name, report.sequence)))  # type: ignore[misc]
    publisher: Publisher = bus
    publisher.publish(builders.report(sequence=3))
    assert seen == [("b", 3), ("a", 3), ("c", 3)]


def test_a_failing_subscriber_is_logged_and_counted_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    bus = InProcessBus()
    seen: list[Report] = []
    bus.subscribe("store", _refuse)
    bus.subscribe("other", seen.append)
    with caplog.at_level(logging.ERROR):
        bus.publish(builders.report(sequence=3))
        bus.publish(builders.report(sequence=4))
    assert [report.sequence for report in seen] == [3, 4]
    assert bus.failures == {"store": 2, "other": 0}
    assert "store did not take report 3: disk full" in caplog.text


def test_a_name_is_given_once() -> None:
    bus = InProcessBus()
    bus.subscribe("store", _refuse)
    with pytest.raises(ValueError, match="store"):
        bus.subscribe("store", _refuse)
