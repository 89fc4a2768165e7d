"""What only servers have: they restart under a process that goes on, and they refuse values that SQLite would take."""

from __future__ import annotations

import pytest
from sqlalchemy import insert

from memhint.store import StoreError, open_store
from memhint.store.errors import StoreRefused
from memhint.store.tables import event
from tests.unit import builders
from tests.unit.builders import NOW


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_store_goes_on_when_its_server_was_killed_and_is_back(url: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgres" if url.startswith("postgresql") else "mariadb")
    store = open_store(url)
    store.reports.save(builders.report(sequence=1))
    server.kill()
    with pytest.raises(StoreError) as caught:
        store.reports.save(builders.report(sequence=2, at=NOW + 10))
    assert not isinstance(caught.value, StoreRefused)
    server.start()
    store.reports.save(builders.report(sequence=3, at=NOW + 20))
    found = store.reports.newest()
    assert found is not None
    assert found.sequence == 3
    assert [point.at - NOW for point in store.reports.history("host-a")] == [0, 20]
    store.close()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_a_value_that_does_not_fit_is_refused_and_the_database_is_not_said_to_be_away(url: str) -> None:
    store = open_store(url)
    row = {
        "at": 1,
        "host": "h" * 300,
        "subject": "",
        "lever": "",
        "desired": "",
        "answer": "",
        "reason": "",
        "detail": "",
    }
    with pytest.raises(StoreRefused), store.database.write() as connection:
        connection.execute(insert(event).values(row))
    assert store.events.newest() == ()
    store.close()


def test_an_event_that_is_too_long_or_has_a_nul_is_kept_as_far_as_it_fits(url: str) -> None:
    store = open_store(url)
    store.events.record("host-a", NOW, [builders.lever_state(desired="on\0" + "x" * 100)])
    store.events.record("host-a", NOW, [builders.lever_state(desired="told twice")])
    (found,) = store.events.newest()
    assert found.desired == "on" + "x" * 62
    store.close()


def test_history_becomes_the_worst_of_five_minutes_then_of_an_hour(url: str) -> None:
    store = open_store(url, history_hours=1.0, five_minute_days=1.0, hourly_days=30.0)
    start = NOW - NOW % 3600
    for number, free in enumerate((7, 3, 5)):
        memory = builders.host_memory(available=free, swap_used=free)
        for host in ("host-a", "host-b"):
            seen = builders.host_observation(memory=memory, pressure=None if free == 7 else builders.pressure())
            store.reports.save(builders.report(host=host, at=start + 200 * number, observation=seen))

    def points() -> list[tuple[float, int, int, int, float | None]]:
        found = store.reports.history("host-a")
        assert len(store.reports.history("host-b")) == len(found)
        return [(one.at - start, one.span, one.available, one.swap_used, one.psi) for one in found]

    assert points() == [(0, 0, 7, 7, None), (200, 0, 3, 3, 0.5), (400, 0, 5, 5, 0.5)]
    for _ in range(2):
        store.history.tidy(start + 3600 + 300)
        assert points() == [(0, 300, 3, 7, 0.5), (400, 0, 5, 5, 0.5)]
    store.history.tidy(start + 86_400 + 3599)
    assert points() == [(0, 300, 3, 7, 0.5), (300, 300, 5, 5, 0.5)]
    for _ in range(2):
        store.history.tidy(start + 86_400 + 3600)
        assert points() == [(0, 3600, 3, 7, 0.5)]
    store.history.tidy(start + 31 * 86_400)
    assert points() == []
    store.close()
