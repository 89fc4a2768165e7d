"""The record of actions: nothing is lost while the store is away, or between two reports."""

from __future__ import annotations

import pytest

from memhint.agent.applied import Applied
from memhint.agent.retrying_audit import RetryingAudit
from memhint.objects.verdict import Answer, Verdict
from memhint.store.errors import StoreError, StoreRefused
from tests.unit import builders

DONE = builders.lever_state(verdict=Verdict(Answer.APPLIED))
SAME = builders.lever_state(verdict=Verdict(Answer.UNCHANGED))


class Trail:
    def __init__(self) -> None:
        self.kept: list[tuple[float, Answer]] = []
        self.error: StoreError | None = None

    def record(self, host, at, states) -> None:
        if self.error is not None:
            raise self.error
        self.kept += [(at, one.verdict.answer) for one in states]


def test_what_the_store_did_not_take_is_told_again_in_its_order() -> None:
    trail = Trail()
    unlost = RetryingAudit(trail)
    trail.error = StoreError("database is locked")
    for at, states in ((1.0, [DONE]), (2.0, [SAME, DONE])):
        with pytest.raises(StoreError):
            unlost.record("host-1", at, states)
    trail.error = None
    unlost.record("host-1", 3.0, [])
    assert trail.kept == [(1.0, Answer.APPLIED), (2.0, Answer.UNCHANGED), (2.0, Answer.APPLIED)]
    unlost.record("host-1", 4.0, [])
    assert len(trail.kept) == 3


def test_what_no_store_takes_keeps_nothing_else_from_it() -> None:
    trail = Trail()
    unlost = RetryingAudit(trail)
    trail.error = StoreRefused("too long")
    unlost.record("host-1", 1.0, [DONE])
    trail.error = None
    unlost.record("host-1", 2.0, [SAME])
    assert trail.kept == [(2.0, Answer.UNCHANGED)]


def test_what_waits_is_bounded_and_the_newest_stays() -> None:
    trail = Trail()
    unlost = RetryingAudit(trail, most=2)
    trail.error = StoreError("database is locked")
    for at in (1.0, 2.0, 3.0):
        with pytest.raises(StoreError):
            unlost.record("host-1", at, [DONE])
    trail.error = None
    unlost.record("host-1", 4.0, [])
    assert trail.kept == [(2.0, Answer.APPLIED), (3.0, Answer.APPLIED)]


def test_only_what_changed_something_is_kept_and_only_once() -> None:
    applied = Applied(lambda: 7.0)
    applied.note(SAME)
    applied.note(DONE)
    assert applied.take() == [(7.0, DONE)]
    assert applied.take() == []
