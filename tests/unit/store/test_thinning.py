"""Thinning takes many small transactions, whatever waits, and comes to what one would."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from sqlalchemy import event, func, select

from memhint.objects.summary import domain_summaries
from memhint.store import Store, thinning
from memhint.store.tables import domain_history
from tests.told import pulls
from tests.unit import builders
from tests.unit.store.plans import plans_of

BEGIN = 1_700_002_800 // 3600 * 3600
OWNERS = 7
DAY = 86_400


def deletions(store: Store) -> list[int]:
    """How many rows each statement deletes from now on."""
    gone: list[int] = []

    def done(_connection, cursor, statement: str, *_) -> None:
        if statement.startswith("DELETE"):
            gone.append(cursor.rowcount)

    event.listen(store.database.engine, "after_cursor_execute", done)
    return gone


def test_what_waits_is_thinned_in_small_transactions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "PART", 3)
    one = domain_summaries(builders.report())[0]
    points = [
        replace(one, uuid=f"vm-{number}", at=float(BEGIN + hour * 3600 + minute * 60), assigned=hour * 100 + minute)
        for number in range(OWNERS)
        for hour in range(2)
        for minute in range(4)
    ]
    with store.database.write() as connection:
        store.domain_history.add(connection, points)
    gone = deletions(store)
    store.domain_history.tidy(BEGIN + 8 * 3600)
    assert sum(gone) == len(points)
    assert max(gone) <= 3 * 4
    for number in range(OWNERS):
        kept = store.domain_history.of(f"vm-{number}")
        assert [(one.at - BEGIN, one.span, one.assigned) for one in kept] == [(0, 3600, 3), (3600, 3600, 103)]
    with store.database.read() as connection:
        assert connection.execute(select(func.count()).select_from(domain_history)).scalar_one() == 2 * OWNERS


def test_what_nobody_keeps_goes_in_small_transactions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "SLICE", 10)
    for second in range(35):
        store.events.record("host-a", builders.NOW + second // 3, [builders.lever_state(subject=str(second))])
    gone = deletions(store)
    store.events.tidy(builders.NOW + 10 + store.events._keep)
    assert sum(gone) == 30
    assert len(gone) == 3
    assert max(gone) <= 10 + 2  # with those of one moment
    assert len(pulls(store)) == 5


def test_hours_that_nobody_keeps_are_found_without_reading_the_others(store: Store) -> None:
    for tidy in (store.domain_history.tidy, store.history.tidy):
        plans = plans_of(store.database, partial(tidy, BEGIN + 800 * DAY), "DELETE")
        assert "(span=? AND bucket<?)" in plans
        assert "(span=?)" not in plans
