from __future__ import annotations

from memhint.planner.plan import start
from memhint.planner.settings import PlannerSettings
from memhint.store import Store


def test_a_planners_state_comes_back_in_the_same_boot_only(store: Store) -> None:
    state = start(PlannerSettings())
    store.states.save("host-a", "boot-1", state)
    assert store.states.newest("host-a", "boot-1") == state
    assert store.states.newest("host-a", "boot-2") is None
    assert store.states.newest("host-b", "boot-1") is None


def test_a_new_boot_replaces_the_state_of_the_last(store: Store) -> None:
    state = start(PlannerSettings())
    store.states.save("host-a", "boot-1", state)
    store.states.save("host-a", "boot-2", state)
    assert store.states.newest("host-a", "boot-1") is None
    assert store.states.newest("host-a", "boot-2") == state
