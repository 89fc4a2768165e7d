"""What an agent begins with, by how long its host was without one."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from memhint.agent import service
from memhint.planner.earned_ratio import Day, Earned, evidence
from memhint.planner.past import Past
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start
from memhint.planner.window import Window

PAST = {"vm": Past("1:1", 0.0, 7.0, 0.0, 7)}


EARNED = Earned((Day(3, 20, 300),))
CONF: Any = SimpleNamespace(host_name="host", period=10.0)


def booted(monkeypatch: pytest.MonkeyPatch, ended: float | None) -> PlannerState | None:
    windows = {"other": Window(86400.0), "fault_in": Window(86400.0)}
    state = PlannerState(**windows, at=4 * 86400.0, past=PAST, predictor="decaying_peak", earned=EARNED, headroom=5)
    monkeypatch.setattr(service, "host_boot", lambda root: "boot")
    monkeypatch.setattr(service, "planner_settings", lambda conf: PlannerSettings())
    found = (state, ended)
    states = SimpleNamespace(newest=lambda host, boot: None, of_last_boot=lambda host, boot: found)
    store: Any = SimpleNamespace(states=states)
    return service.remembered_state(store, CONF)


def test_after_a_boot_what_vms_did_holds_and_what_was_earned_if_the_last_one_ended_in_order(monkeypatch) -> None:
    state = booted(monkeypatch, time.time() - 60)
    assert state is not None
    assert (state.headroom, state.at, set(state.past)) == (0, None, {"vm"})
    assert evidence(state.earned) == evidence(EARNED)


@pytest.mark.parametrize("ahead", [None, 86400.0])
def test_of_a_boot_that_broke_off_or_ended_in_the_future_nothing_is_earned(monkeypatch, ahead: float | None) -> None:
    state = booted(monkeypatch, None if ahead is None else time.time() + ahead)
    assert state is not None
    assert set(state.past) == {"vm"}
    assert state.earned == Earned()


def begun(monkeypatch: pytest.MonkeyPatch, away: float | None) -> PlannerState | None:
    state: Any = start(PlannerSettings())
    if away is not None:
        windows = {"other": state.other, "fault_in": state.fault_in}
        at = time.monotonic() - away
        state = PlannerState(**windows, at=at, past=PAST, predictor="decaying_peak", headroom=5)
    monkeypatch.setattr(service, "host_boot", lambda root: "boot")
    states = SimpleNamespace(newest=lambda host, boot: state, of_last_boot=lambda host, boot: None)
    store: Any = SimpleNamespace(states=states)
    return service.remembered_state(store, CONF)


def test_after_a_short_while_all_of_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    state = begun(monkeypatch, 5.0)
    assert state is not None
    assert (state.headroom, state.past) == (5, PAST)


def test_after_a_long_while_what_vms_did_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    state = begun(monkeypatch, 86400.0)
    assert state is not None
    assert (state.headroom, state.at, state.past, state.predictor) == (0, None, PAST, "decaying_peak")


def test_of_a_planner_that_never_planned_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert begun(monkeypatch, None) is None
