"""What one page of the log costs: nothing of it is found by reading all events."""

from __future__ import annotations

import pytest

from memhint.objects.event import Event
from memhint.objects.instance import Instance
from memhint.objects.lever import LeverName
from memhint.objects.verdict import Answer, Verdict
from memhint.store import Store
from memhint.store.fleet import HostEventKind, HostRecord
from memhint.store.log import Log, LogFilter
from tests.unit.builders import DB, NOW, WEB
from tests.unit.store.plans import plans_of
from tests.unit.store.test_instances import claims, look

SORTED = "TEMP B-TREE"
WHOLE = "SCAN event"


@pytest.mark.parametrize("since", [None, NOW])
@pytest.mark.parametrize("marker", [None, f"{NOW},0,7", f"{NOW},1,7"])
def test_the_newest_events_are_found_without_the_others(store: Store, marker: str | None, since: float | None) -> None:
    plans = plans_of(store.database, lambda: Log(store.database).page(LogFilter(since=since), 1, marker))
    assert "event USING INDEX ix_event_at" in plans
    assert "host_event USING INDEX ix_host_event_at" in plans
    assert SORTED not in plans
    if marker is not None:
        assert plans.count("at<?") == 2, plans  # it begins at that place


def test_the_events_of_a_vm_are_found_without_the_others(store: Store) -> None:
    plans = plans_of(store.database, lambda: Log(store.database).page(LogFilter(domain=WEB), 1))
    assert "SEARCH event USING INDEX ix_event_subject_at (subject=?)" in plans
    assert SORTED not in plans


@pytest.mark.parametrize("by_nova", [False, True])
@pytest.mark.parametrize("project", ["own", "nobody"])
def test_the_events_of_a_project_are_found_by_its_vms(store: Store, project: str, by_nova: bool) -> None:
    if by_nova:
        look(store, Instance(WEB, "own", "host-a"), Instance(DB, "other", "host-a"))
    claims(store, "host-a", "own", WEB)
    claims(store, "host-b", "other", DB)
    told = tuple(
        Event(NOW, "host-a", subject, LeverName.REPORTING, "on", Verdict(Answer.APPLIED)) for subject in (WEB, DB)
    )
    store.fleet.take([], [HostRecord("host-a", (), told, 0)])
    store.fleet.tell("host-a", HostEventKind.CAPACITY, "of no project")
    log = Log(store.database)
    assert [one.domain for one in log.page(LogFilter(project=project), 10).items] == [WEB] * (project == "own")
    plans = plans_of(store.database, lambda: log.page(LogFilter(project=project), 1))
    assert "SEARCH event USING INDEX ix_event_subject_at (subject=?)" in plans
    assert WHOLE not in plans


def test_old_events_are_deleted_without_reading_the_others(store: Store) -> None:
    with store.database.read() as connection:
        for table in ("event", "host_event"):
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN DELETE FROM {table} WHERE at < 1").all()
            assert f"INDEX ix_{table}_at" in str(plan)
