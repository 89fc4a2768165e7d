"""What a cycle tells: a store that is kept by others costs it one try, and loses nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from memhint.agent.news import News
from memhint.agent.retrying_audit import RetryingAudit
from memhint.agent.service import AuditBoth
from memhint.objects.verdict import Answer, Verdict
from memhint.store.errors import StoreError
from tests.unit import builders


class Trail:
    """A store, or what is told beside it."""

    def __init__(self, *, busy: bool = False) -> None:
        self.busy = busy
        self.tries = 0
        self.kept: list[tuple[float, str]] = []

    def record(self, host, at, states) -> None:
        self.tries += 1
        if self.busy:
            raise StoreError("database is locked")
        self.kept += [(at, one.subject) for one in states]


def test_a_store_that_is_busy_is_tried_once_in_a_cycle_and_nothing_is_lost() -> None:
    store, fleet, metrics = Trail(busy=True), Trail(), Trail()
    audit = AuditBoth(AuditBoth(RetryingAudit(store), fleet), metrics)
    news = News(cast("Any", SimpleNamespace(publish=lambda report: None)), audit)
    applied = Verdict(Answer.APPLIED)
    done = [(float(at), builders.lever_state(subject=f"vm-{at}", verdict=applied)) for at in range(300)]
    report = cast("Any", SimpleNamespace(host="host-1", at=300.0, levers=(), domains=()))
    everything = [(at, one.subject) for at, one in done]
    news.tell(report, done)
    assert store.tries == 1
    assert fleet.kept == metrics.kept == everything
    news.tell(report, done[:2])  # again
    assert store.tries == 2
    news.tell(report, [])
    assert store.tries == 3
    store.busy = False
    news.tell(report, [])
    assert store.kept == [*everything, *everything[:2]]
