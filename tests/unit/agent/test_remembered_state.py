"""What an agent begins with, by how long its host was without one."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from memhint.agent import service
from memhint.planner.past import Past
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start

PAST = {"vm": Past("1:1", 0.0, 7.0, 0.0, 7)}


def begun(monkeypatch: pytest.MonkeyPatch, away: float | None) -> PlannerState | None:
    state: Any = start(PlannerSettings())
    if away is not None:
        windows = {"other": state.other, "fault_in": state.fault_in}
        at = time.monotonic() - away
        state = PlannerState(**windows, at=at, past=PAST, predictor="decaying_peak", headroom=5)
    monkeypatch.setattr(service, "host_boot", lambda root: "boot")
    store: Any = SimpleNamespace(states=SimpleNamespace(newest=lambda host, boot: state))
    conf: Any = SimpleNamespace(host_name="host", period=10.0)
    return service.remembered_state(store, conf)


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
