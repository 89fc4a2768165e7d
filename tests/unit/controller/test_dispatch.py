from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from memhint.bus.commands import CommandStatus, Reply
from memhint.bus.courier import Command
from memhint.bus.errors import BusError, CommandTimeout, HostAway
from memhint.controller.dispatch import EmbeddedDispatch, FleetDispatch, NoSuchDomain, NoSuchReclaim, WishedOnHost
from memhint.objects.policy import Origin, PolicyError
from memhint.objects.reclaim import Reclaim, ReclaimError, ReclaimState
from memhint.store import Store, open_store
from memhint.store.fleet import State
from memhint.store.tables import policy
from tests.unit import builders
from tests.unit.builders import NOW, WEB

EPOCH = "001700000000000-0000000a"


class Fleet:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.asked: list[Command] = []
        self.error: BusError | None = None
        self.reply = Reply(CommandStatus.DONE, EPOCH)
        self.dispatch = FleetDispatch(store, self.ask, lambda: NOW)

    def ask(self, command: Command) -> Reply:
        self.asked.append(command)
        if self.error is not None:
            raise self.error
        return self.reply

    def report(self, **operator: str) -> None:
        domain = replace(builders.domain_report(), policy=builders.policy({Origin.OPERATOR: operator}))
        self.store.fleet.take([State(builders.report(epoch=EPOCH, domains=(domain,)), 10.0)])


@pytest.fixture
def fleet(store: Store) -> Fleet:
    return Fleet(store)


def test_a_policy_is_kept_and_told(fleet: Fleet) -> None:
    fleet.report()
    assert fleet.dispatch.set_policy(WEB, {"reporting": "off"}).taken
    (one,) = fleet.asked
    held = fleet.store.central_policies.of(WEB)
    assert held is not None
    assert (one.host, one.name, one.epoch) == ("host-a", "policy", EPOCH)
    assert one.arguments == {"domain": WEB, "values": {"reporting": "off"}, "version": held.version}


def test_what_an_operator_wished_on_the_host_ends_by_a_change_that_names_it(fleet: Fleet) -> None:
    fleet.report(dedup="on", reporting="off")
    with pytest.raises(WishedOnHost, match="on host-a an operator wishes dedup=on;"):
        fleet.dispatch.set_policy(WEB, {"min_mb": "64", "reporting": None})
    assert fleet.asked == []
    fleet.dispatch.set_policy(WEB, {"min_mb": "64", "reporting": None, "dedup": "on"})
    assert fleet.asked[-1].arguments["values"] == {"dedup": "on", "min_mb": "64"}
    fleet.dispatch.set_policy(WEB, {"dedup": None})
    assert fleet.asked[-1].arguments["values"] == {"min_mb": "64"}
    assert fleet.asked[-1].arguments["version"] > fleet.asked[-2].arguments["version"]


@pytest.mark.parametrize(
    ("error", "reply", "says"),
    [
        (HostAway("no agent listens"), None, "no agent listens; it is told when host-a reports"),
        (CommandTimeout("no answer"), None, "no answer; it is told"),
        (BusError("no broker"), None, "no broker; it is told"),
        (None, Reply(CommandStatus.EPOCH, "other", "the agent was restarted"), "restarted; it is told"),
        (None, Reply(CommandStatus.FAILED, EPOCH, "PolicyError: no"), "host-a does not take it: PolicyError: no"),
    ],
)
def test_what_does_not_get_through_is_kept_all_the_same(
    fleet: Fleet, error: BusError | None, reply: Reply | None, says: str
) -> None:
    fleet.report()
    fleet.error, fleet.reply = error, reply or fleet.reply
    delivery = fleet.dispatch.set_policy(WEB, {"reporting": "off"})
    assert not delivery.taken
    assert says in delivery.detail
    held = fleet.store.central_policies.of(WEB)
    assert held is not None
    assert held.values == {"reporting": "off"}


@pytest.mark.parametrize("kind", ["fleet", "embedded"])
@pytest.mark.parametrize("values", [{"colour": "red"}, {"colour": None}, {"dedup": "on", "reporting": "perhaps"}])
def test_a_policy_that_cannot_be_keeps_nothing(
    fleet: Fleet, store: Store, kind: str, values: dict[str, str | None]
) -> None:
    fleet.report()
    with pytest.raises(PolicyError):
        (fleet.dispatch if kind == "fleet" else EmbeddedDispatch(store)).set_policy(WEB, values)
    assert store.central_policies.of(WEB) is None
    assert store.policies.inputs(WEB) == {}


def test_what_contradicts_an_earlier_wish_is_not_kept_and_keeps_no_later_one_from_the_host(fleet: Fleet) -> None:
    fleet.report()
    fleet.dispatch.set_policy(WEB, {"guest_actions": "allow"})
    fleet.dispatch.set_policy(WEB, {"fast_min": "60%"})
    with pytest.raises(PolicyError, match="fast_max"):
        fleet.dispatch.set_policy(WEB, {"fast_max": "40%"})
    assert fleet.dispatch.set_policy(WEB, {"guest_actions": "deny"}).taken
    assert fleet.asked[-1].arguments["values"] == {"guest_actions": "deny", "fast_min": "60%"}


@pytest.mark.parametrize("kind", ["fleet", "embedded"])
def test_nobody_can_be_asked_what_no_host_has(fleet: Fleet, store: Store, kind: str) -> None:
    dispatch = fleet.dispatch if kind == "fleet" else EmbeddedDispatch(store)
    with pytest.raises(NoSuchDomain):
        dispatch.set_policy(WEB, {"dedup": "on"})
    with pytest.raises(NoSuchDomain):
        dispatch.reclaim(builders.reclaim_request())
    with pytest.raises(NoSuchReclaim):
        dispatch.interrupt("req-1", "why")
    assert store.reclaims.newest() == ()


@pytest.mark.parametrize("kind", ["fleet", "embedded"])
def test_all_wishes_of_a_vm_that_is_away_are_taken_back(fleet: Fleet, store: Store, kind: str) -> None:
    dispatch = fleet.dispatch if kind == "fleet" else EmbeddedDispatch(store)
    with pytest.raises(NoSuchDomain):
        dispatch.clear_policy(WEB)
    fleet.report()
    dispatch.set_policy(WEB, {"dedup": "on", "reporting": "off"})
    fleet.store.fleet.take([State(builders.report(epoch=EPOCH, sequence=8, domains=()), 20.0)])
    with store.database.write() as connection:
        connection.execute(update(policy).values(value="perhaps"))
    dispatch.set_policy(WEB, {"dedup": "off"})
    assert set(store.policies.read(WEB).unreadable) == {WEB}
    dispatch.clear_policy(WEB)
    assert store.policies.inputs(WEB) == {}


def test_a_vm_that_is_away_for_now_can_still_be_wished_for(fleet: Fleet) -> None:
    fleet.report()
    fleet.dispatch.set_policy(WEB, {"dedup": "on"})
    fleet.store.fleet.take([State(builders.report(epoch=EPOCH, sequence=8, domains=()), 20.0)])
    delivery = fleet.dispatch.set_policy(WEB, {"dedup": None})
    assert not delivery.taken
    assert "no host has this VM now" in delivery.detail


def test_a_request_is_kept_for_its_host_and_told(fleet: Fleet) -> None:
    fleet.report()
    one, delivery = fleet.dispatch.reclaim(builders.reclaim_request())
    assert delivery.taken
    assert (one.host, one.reclaim.state, one.interrupted) == ("host-a", ReclaimState.QUEUED, None)
    assert fleet.asked[-1].arguments["left"] == 60.0
    taken_back, delivery = fleet.dispatch.interrupt("req-1", "a mistake")
    assert delivery.taken
    assert taken_back.interrupted == "a mistake"
    assert (fleet.asked[-1].name, fleet.asked[-1].arguments["why"]) == ("interrupt", "a mistake")


def test_what_has_ended_is_not_taken_back(fleet: Fleet) -> None:
    fleet.report()
    fleet.dispatch.reclaim(builders.reclaim_request())
    fleet.store.reclaims.save(replace(Reclaim(builders.reclaim_request()), state=ReclaimState.DONE))
    one, _ = fleet.dispatch.interrupt("req-1", "too late")
    assert (one.reclaim.state, one.interrupted) == (ReclaimState.DONE, None)
    assert [command.name for command in fleet.asked] == ["reclaim"]


@pytest.mark.parametrize(
    ("error", "reply", "says", "refused"),
    [
        (HostAway("no agent listens"), None, "no agent listens; it is told when host-a reports", False),
        (None, Reply(CommandStatus.FAILED, EPOCH, "ReclaimError: no"), "host-a does not take it", True),
    ],
)
def test_who_asks_for_a_reclaim_learns_whether_its_agent_was_told(
    fleet: Fleet, error: BusError | None, reply: Reply | None, says: str, refused: bool
) -> None:
    fleet.report()
    fleet.error, fleet.reply = error, reply or fleet.reply
    kept, asked = fleet.dispatch.reclaim(builders.reclaim_request())
    taken_back, told = fleet.dispatch.interrupt("req-1", "a mistake")
    assert (kept.reclaim.state, taken_back.interrupted) == (ReclaimState.QUEUED, "a mistake")
    for delivery in (asked, told):
        assert (delivery.taken, delivery.refused) == (False, refused)
        assert says in delivery.detail


@pytest.mark.parametrize("changes", [{"size": 1}, {"timeout": 0.0}])
def test_a_request_that_cannot_be_is_not_kept(fleet: Fleet, changes: dict[str, Any]) -> None:
    fleet.report()
    with pytest.raises(ReclaimError):
        fleet.dispatch.reclaim(builders.reclaim_request(**changes))
    assert fleet.asked == []
    assert fleet.store.reclaims.newest() == ()


def test_a_single_hosts_wishes_are_where_its_agent_looks(store: Store, url: str) -> None:
    agents = open_store(url, host="host-a")
    agents.reports.save(builders.report())
    dispatch = EmbeddedDispatch(store)
    dispatch.set_policy(WEB, {"dedup": "on", "reporting": "off"})
    dispatch.set_policy(WEB, {"dedup": None})
    assert agents.policies.inputs(WEB) == {WEB: {Origin.OPERATOR: {"reporting": "off"}}}
    dispatch.reclaim(builders.reclaim_request())
    assert [one.request.id for one in agents.reclaims.open()] == ["req-1"]
    dispatch.interrupt("req-1", "a mistake")
    assert agents.reclaims.interrupted() == {"req-1": "a mistake"}
    agents.close()
