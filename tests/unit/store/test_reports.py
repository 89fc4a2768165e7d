from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from memhint.objects.history import HistoryPoint
from memhint.objects.units import GIB
from memhint.store import Store, StoreDamaged, open_store
from memhint.store.history import History
from memhint.store.rows.points import Keep
from tests.unit import builders
from tests.unit.builders import NOW


@pytest.fixture
def short(url: str) -> Iterator[Store]:
    store = open_store(url, keep=Keep(3600.0))
    yield store
    store.close()


def test_an_empty_store_has_no_report(store: Store) -> None:
    assert store.reports.newest() is None
    assert store.reports.hosts() == ()


def test_only_the_newest_report_of_a_host_is_kept(store: Store) -> None:
    for sequence in (1, 2, 3):
        store.reports.save(builders.report(sequence=sequence, at=NOW + sequence))
    found = store.reports.newest("host-a")
    assert found is not None
    assert found.sequence == 3
    with store.database.read() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM report")).scalar() == 1


def test_hosts_are_kept_apart(store: Store) -> None:
    store.reports.save(builders.report(host="host-a", at=NOW + 5))
    store.reports.save(builders.report(host="host-b", at=NOW))
    assert store.reports.hosts() == ("host-a", "host-b")
    newest, other = store.reports.newest(), store.reports.newest("host-b")
    assert newest is not None
    assert newest.host == "host-a"
    assert other is not None
    assert other.host == "host-b"
    assert store.reports.newest("host-c") is None


def test_history_has_the_key_numbers_of_every_cycle(store: Store) -> None:
    store.reports.save(builders.report(at=NOW))
    quiet = builders.host_observation(pressure=None)
    store.reports.save(builders.report(at=NOW + 10, observation=quiet))
    first, second = store.history.of("host-a")
    assert first == HistoryPoint(NOW, 16 * GIB, 10 * GIB, 50 * GIB, 20 * GIB, 20 * GIB, 40 * GIB, 0, 0.5)
    assert second.psi is None
    assert store.history.of("host-a", since=NOW + 1) == (second,)


def test_history_that_grows_old_is_thinned_as_reports_come(short: Store) -> None:
    for after in (0, 3599, 3601, 6000, 7200):
        short.reports.save(builders.report(at=NOW + after))
    assert [(point.at - NOW, point.span) for point in short.history.of("host-a")] == [
        (-200, 300),
        (3599, 0),
        (3601, 0),
        (6000, 0),
        (7200, 0),
    ]


def test_report_and_history_are_saved_together_or_not_at_all(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.reports.save(builders.report(sequence=1))

    def fail(*_: object) -> None:
        raise RuntimeError("killed here")

    monkeypatch.setattr(History, "add", fail)
    with pytest.raises(RuntimeError, match="killed here"):
        store.reports.save(builders.report(sequence=2, at=NOW + 10))
    found = store.reports.newest()
    assert found is not None
    assert found.sequence == 1
    assert len(store.history.of("host-a")) == 1


def test_a_damaged_document_is_said_to_be_one(store: Store) -> None:
    store.reports.save(builders.report())
    with store.database.write() as connection:
        connection.execute(text("UPDATE report SET document = substr(document, 1, 100)"))
    with pytest.raises(StoreDamaged, match="restart the agent"):
        store.reports.newest()
