from __future__ import annotations

import json
from dataclasses import replace

import pytest

from memhint.objects.policy import Origin, effective
from memhint.objects.units import MIB
from memhint.planner.dedup_auto import AutoState, Doubt
from memhint.planner.past import Past
from memhint.planner.plan import plan
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start
from memhint.store import Store, StoreDamaged, codec
from tests.unit import builders


def test_a_planners_state_comes_back_in_the_same_boot_only(store: Store) -> None:
    state = start(PlannerSettings())
    store.states.save("host-a", "boot-1", state)
    assert store.states.newest("host-a", "boot-1") == state
    assert store.states.newest("host-a", "boot-2") is None
    assert store.states.newest("host-b", "boot-1") is None


def test_what_auto_has_switched_on_outlives_the_agent(store: Store) -> None:
    auto = AutoState(members=("a", "b"), scans=7, held={"p2": 12.5}, doubted={"p3": Doubt(1.5, 2.5)})
    state = replace(start(PlannerSettings()), dedup_auto=auto)
    store.states.save("host-a", "boot-1", state)
    assert store.states.newest("host-a", "boot-1").dedup_auto == auto


def test_what_the_planner_remembers_after_any_look_comes_back(store: Store) -> None:
    """Also after the first one at a VM, which nobody has seen idle yet."""
    settings = PlannerSettings()
    policies = {builders.WEB: effective({Origin.OPERATOR: {"guest_actions": "allow"}})}
    state = start(settings)
    for number, rss in enumerate((600 * MIB, 600 * MIB, 900 * MIB, 500 * MIB, 500 * MIB)):
        vm = builders.domain_observation(uuid=builders.WEB, process=builders.process(rss=rss))
        state = plan(builders.host_observation(), [vm], policies, state, 100.0 + 10 * number, settings).state
        store.states.save("host-a", "boot-1", state)
        assert store.states.newest("host-a", "boot-1") == state


def test_a_new_boot_replaces_the_state_of_the_last(store: Store) -> None:
    state = start(PlannerSettings())
    store.states.save("host-a", "boot-1", state)
    store.states.save("host-a", "boot-2", state)
    assert store.states.newest("host-a", "boot-1") is None
    assert store.states.newest("host-a", "boot-2") == state


def test_what_was_known_in_the_last_boot_is_told_with_whether_it_ended_in_order(store: Store) -> None:
    state = start(PlannerSettings())
    store.states.save("host-a", "boot-1", state, 1000.5)
    assert store.states.of_last_boot("host-a", "boot-1") is None
    assert store.states.of_last_boot("host-a", "boot-2") == (state, 1000.5)
    store.states.save("host-a", "boot-1", state)  # the next agent in this boot goes on
    assert store.states.of_last_boot("host-a", "boot-2") == (state, None)
    assert store.states.of_last_boot("host-b", "boot-2") is None


def test_a_state_with_every_kind_of_past_comes_back(store: Store) -> None:
    past = {"vm": Past("1:2", 0.5, 1.5, 2.0, 3, (1, 2, 3), 7, born=-3.5)}
    state = replace(start(PlannerSettings()), past=past, predictor="window/86400", at=2.0)
    store.states.save("host-a", "boot-1", state)
    assert store.states.newest("host-a", "boot-1") == state


def test_a_state_of_before_the_predictors_loads_and_every_vm_is_new_to_them() -> None:
    document = json.dumps(
        {
            "other": {"length": 3600.0, "slots": [[1, 5.0]]},
            "fault_in": {"length": 3600.0, "slots": []},
            "at": 10.0,
            "past": {"vm": {"instance": "1:2", "first_seen": 0.0, "peak": 5.0, "at": 10.0, "highest": 5}},
            "footprint": {"1:2": 5},
            "swapped_in": 0,
            "pressure": {"entered": False, "calm_since": None, "why": ""},
            "headroom": 7,
            "dedup_project": None,
        }
    )
    state = codec.parse_as(document, PlannerState)
    assert (state.headroom, state.past["vm"].slots, state.predictor) == (7, (), "")
    with pytest.raises(StoreDamaged):
        codec.parse_as(document.replace('"peak": 5.0', '"peak": "5"'), PlannerState)
