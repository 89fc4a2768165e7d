from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memhint.agent.commands import OVERTAKEN, Commands, ReportedReclaims
from memhint.agent.growth import Learnt
from memhint.controller.messages import growth_command
from memhint.objects.codec import to_plain
from memhint.objects.policy import Origin, PolicyError
from memhint.objects.reclaim import Reclaim, ReclaimError, ReclaimState
from memhint.planner.growth import GrowthError, table_of
from memhint.store import Store, StoreError, open_store
from tests.unit import builders
from tests.unit.builders import NOW, WEB


class Agent:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.woken = 0
        self.clock = 100.0
        self.commands = Commands(store, self.wake, lambda: NOW, clock=lambda: self.clock)

    def wake(self) -> None:
        self.woken += 1

    def wishes(self) -> dict[str, str]:
        return self.store.policies.inputs(WEB).get(WEB, {}).get(Origin.OPERATOR, {})

    def policy(self, version: int, **values: str) -> Any:
        return self.commands.policy({"domain": WEB, "version": version, "values": values})


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    store = open_store(f"sqlite:///{tmp_path}/m.db", host="host-a")
    yield Agent(store)
    store.close()


def request(**changes: Any) -> dict[str, Any]:
    return {"request": {**to_plain(builders.reclaim_request()), **changes}, "left": 30.0}


def test_a_policy_is_all_that_an_operator_wishes_and_wakes_the_agent(agent: Agent) -> None:
    agent.store.policies.set_operator(WEB, {"dedup": "on"})
    assert agent.policy(5, reporting="off") == {"applied": True}
    assert agent.wishes() == {"reporting": "off"}
    assert agent.woken == 1
    agent.policy(6)
    assert agent.wishes() == {}


def test_an_older_policy_that_comes_late_changes_nothing(agent: Agent) -> None:
    agent.policy(6, reporting="off")
    assert agent.policy(5, reporting="on") == {"applied": False}
    assert agent.wishes() == {"reporting": "off"}
    assert agent.policy(6, reporting="off") == {"applied": True}
    agent.policy(7, dedup="on")
    assert agent.wishes() == {"dedup": "on"}


def test_an_older_policy_is_taken_from_controllers_whose_database_was_set_back(agent: Agent) -> None:
    agent.policy(6, reporting="off")
    agent.clock += OVERTAKEN - 1.0
    assert agent.policy(5, reporting="on") == {"applied": False}
    agent.clock += 1.0
    assert agent.policy(5, reporting="on") == {"applied": True}
    assert agent.wishes() == {"reporting": "on"}
    assert agent.policy(4, reporting="off") == {"applied": False}


@pytest.mark.parametrize(
    "changes",
    [
        {"values": {"reporting": "off", "colour": "red"}},
        {"values": {"reporting": "off", "dedup": "perhaps"}},
        {"values": {"reporting": 1}},
        {"values": None},
        {"version": "6"},
        {"version": None},
        {"version": True},
        {"domain": ""},
        {"domain": "x" * 37},
        {"domain": "a\nb"},
        {"domain": None},
    ],
)
def test_a_policy_that_cannot_be_changes_nothing(agent: Agent, changes: dict[str, Any]) -> None:
    agent.policy(5, dedup="on")
    with pytest.raises((PolicyError, ValueError)):
        agent.commands.policy({"domain": WEB, "version": 6, "values": {}, **changes})
    assert agent.wishes() == {"dedup": "on"}
    assert agent.woken == 1


GOOD = table_of(7, [{(0, 5): (5, 5 * 40)}] * 4)


def test_a_growth_table_holds_from_the_next_cycle_on_and_over_restarts(agent: Agent) -> None:
    sent = growth_command("host-a", GOOD, None)
    assert agent.commands.handlers[sent.name](sent.arguments) == {"version": 7}
    assert Learnt(agent.store.growth)() == GOOD
    older = growth_command("host-a", table_of(6, []), None)  # of a fleet whose store was lost
    agent.commands.growth(older.arguments)
    assert Learnt(agent.store.growth)() == table_of(6, [])


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_what_is_no_growth_table_is_refused_and_the_old_one_holds(agent: Agent, nonsense: Any) -> None:
    agent.commands.growth({"table": to_plain(GOOD)})
    plain = to_plain(GOOD)
    raised = {**plain, "cells": [[{**one, "percent": 200} for one in row] for row in plain["cells"]]}
    falling = {**plain, "cells": [list(reversed(row)) for row in plain["cells"]]}
    for one in (nonsense, {**plain, "cells": nonsense}, {**plain, "version": True}, raised, falling):
        with pytest.raises(GrowthError):
            agent.commands.growth({"table": one})
    assert Learnt(agent.store.growth)() == GOOD


def test_a_growth_table_that_cannot_be_kept_does_not_hold(agent: Agent) -> None:
    learnt = Learnt(agent.store.growth)
    agent.store.close()
    with agent.store.database.engine.connect() as connection:
        connection.exec_driver_sql("DROP TABLE growth")
        connection.commit()
    with pytest.raises(StoreError):
        learnt.take(to_plain(GOOD))
    assert learnt() is None
    assert Learnt(agent.store.growth)() is None  # and where it cannot be read there is none


def test_a_request_is_queued_once_and_counts_by_this_hosts_clock(agent: Agent) -> None:
    agent.commands.reclaim(request(at=1.0, expires=31.0))
    (one,) = agent.store.reclaims.open()
    assert (one.request.at, one.request.expires, one.state) == (NOW, NOW + 30, ReclaimState.QUEUED)
    agent.store.reclaims.save(replace(one, state=ReclaimState.DONE))
    agent.commands.reclaim(request())
    assert agent.store.reclaims.open() == ()
    assert len(agent.store.reclaims.newest()) == 1


def test_an_interruption_that_comes_first_keeps_the_request_from_beginning(agent: Agent) -> None:
    agent.commands.interrupt({**request(), "why": "a mistake"})
    agent.commands.reclaim(request())
    assert len(agent.store.reclaims.newest()) == 1
    assert agent.store.reclaims.interrupted() == {"req-1": "a mistake"}
    agent.commands.interrupt({**request(), "why": "another reason"})
    assert agent.store.reclaims.interrupted() == {"req-1": "a mistake"}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"request": None, "left": 1.0},
        request(size=10**30),
        request(size=1),
        request(size=True),
        request(psi_limit=101.0),
        request(reason="\n"),
        {**request(), "left": 0.0},
        {**request(), "left": 1e9},
        {**request(), "left": "1"},
        {**request(), "left": None},
    ],
)
def test_a_request_that_cannot_be_is_not_queued(agent: Agent, arguments: dict[str, Any]) -> None:
    for handler in (agent.commands.reclaim, agent.commands.interrupt):
        with pytest.raises((StoreError, ReclaimError)):
            handler({**arguments, "why": "x"})
    assert agent.store.reclaims.newest() == ()
    assert agent.woken == 0


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    name=st.sampled_from(["policy", "reclaim", "interrupt"]), key=st.sampled_from(["domain", "values", "left"]), to=JSON
)
def test_any_arguments_are_refused_or_whole(agent: Agent, name: str, key: str, to: Any) -> None:
    arguments = {**request(), "why": "x", "domain": WEB, "values": {}, "version": 1, key: to}
    with contextlib.suppress(ValueError, StoreError):
        agent.commands.handlers[name](arguments)
    agent.store.policies.inputs()
    agent.store.reclaims.newest()


def test_what_the_own_store_takes_is_told(agent: Agent) -> None:
    told: list[Reclaim] = []
    trail = ReportedReclaims(agent.store.reclaims, told.append)
    agent.commands.interrupt({**request(), "why": "a mistake"})
    (one,) = trail.open()
    assert trail.interrupted() == {"req-1": "a mistake"}
    done = replace(one, state=ReclaimState.DONE)
    assert trail.save(done)
    assert not trail.save(replace(one, state=ReclaimState.RUNNING))
    assert told == [done]
