from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from memhint.bus.courier import Command
from memhint.controller.reconcile import Reconciler
from memhint.objects.policy import Origin
from memhint.objects.reclaim import Reclaim, ReclaimState
from memhint.objects.report import Report
from memhint.planner.growth import table_of
from memhint.store import Store, open_store
from memhint.store.fleet import State
from memhint.store.tables import growth
from tests.unit import builders
from tests.unit.builders import DB, NOW, WEB

EPOCH = "001700000000000-0000000a"


class Fleet:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.sent: list[Command] = []
        self.clock = 0.0
        self.sequence = 0
        self.growth: int | None = 0  # the version of the table that hosts have
        self.reconciler = Reconciler(store, self.sent.append, 30.0, lambda: self.clock, lambda: NOW)

    def report(self, host: str = "host-a", **operator: str) -> list[Command]:
        """The commands that follow a report in which an operator wishes this of a VM."""
        self.sequence += 1
        domain = replace(builders.domain_report(), policy=builders.policy({Origin.OPERATOR: operator}))
        made: Report = builders.report(
            host=host, epoch=EPOCH, sequence=self.sequence, domains=(domain,), growth=self.growth
        )
        self.reconciler.look(self.store.fleet.take([State(made, self.sequence * 10.0)]))
        sent, self.sent[:] = list(self.sent), []
        return sent


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    store = open_store(f"sqlite:///{tmp_path}/m.db")
    yield Fleet(store)
    store.close()


def test_a_host_that_has_other_wishes_is_told_until_it_has_these(fleet: Fleet) -> None:
    fleet.report()
    wishes = fleet.store.central_policies.set(WEB, {"reporting": "off"})
    (one,) = fleet.report()
    assert one == Command(
        "host-a", "policy", WEB, {"domain": WEB, "values": {"reporting": "off"}, "version": wishes.version}, EPOCH
    )
    assert fleet.report() == []  # not before 30 s are over
    fleet.clock = 30.0
    assert fleet.report(reporting="on") == [one]
    fleet.clock = 60.0
    assert fleet.report(reporting="off") == []
    assert [command.host for command in fleet.report("host-b")] == ["host-b"]  # wherever the VM goes


def test_what_was_wished_on_a_host_stays_where_nobody_wished_anything_here(fleet: Fleet) -> None:
    assert fleet.report(dedup="on") == []
    fleet.store.central_policies.set(DB, {"dedup": "on"})
    assert fleet.report(dedup="on") == []


def test_a_wish_that_was_taken_back_is_taken_back_on_the_host(fleet: Fleet) -> None:
    fleet.report()
    fleet.store.central_policies.set(WEB, {"reporting": "off"})
    fleet.store.central_policies.set(WEB, {}, ["reporting"])
    (one,) = fleet.report(reporting="off")
    assert one.arguments["values"] == {}


def test_a_request_that_waits_is_sent_and_one_that_was_taken_back_too(fleet: Fleet) -> None:
    fleet.report()
    fleet.store.reclaims.add(Reclaim(builders.reclaim_request(expires=NOW + 40)), "host-a")
    fleet.store.reclaims.add(Reclaim(builders.reclaim_request(id="req-2", expires=NOW + 40)), "host-b")
    (one,) = fleet.report()
    assert (one.name, one.about, one.arguments["left"], one.epoch) == ("reclaim", "req-1", 40.0, EPOCH)
    fleet.store.reclaims.interrupt("req-1", "a mistake")
    fleet.clock = 30.0
    (two,) = fleet.report()
    assert (two.name, two.arguments["why"], two.arguments["request"]["id"]) == ("interrupt", "a mistake", "req-1")
    ended = replace(Reclaim(builders.reclaim_request()), state=ReclaimState.DONE)
    fleet.store.reclaims.save(ended)
    fleet.clock = 60.0
    assert fleet.report() == []


def test_a_request_whose_time_is_over_is_not_sent(fleet: Fleet) -> None:
    fleet.store.reclaims.add(Reclaim(builders.reclaim_request(at=NOW - 50, expires=NOW)), "host-a")
    assert fleet.report() == []


def test_hosts_are_sent_the_growth_table_until_they_have_it(fleet: Fleet) -> None:
    assert fleet.report() == []
    fleet.store.growth.save(table_of(7, []))
    assert fleet.report() == []  # it is looked for now and then
    fleet.clock = 30.0
    (one,) = fleet.report()
    assert (one.host, one.name, one.epoch) == ("host-a", "growth", EPOCH)
    assert one.arguments["table"]["version"] == 7
    assert fleet.report() == []  # not before 30 s are over
    assert [command.host for command in fleet.report("host-b")] == ["host-b"]
    fleet.clock = 60.0
    fleet.growth = 7
    assert fleet.report() == []
    fleet.growth = 8  # of a store that was lost
    assert [command.name for command in fleet.report()] == ["growth"]
    fleet.clock, fleet.growth = 90.0, None  # an agent that knows no tables
    assert fleet.report() == []


def test_a_damaged_growth_table_keeps_nothing_else_from_being_sent(fleet: Fleet) -> None:
    fleet.report()
    fleet.store.growth.save(table_of(7, []))
    with fleet.store.database.write() as connection:
        connection.execute(update(growth).values(document="{"))
    fleet.store.central_policies.set(WEB, {"reporting": "off"})
    fleet.clock = 30.0
    assert [command.name for command in fleet.report()] == ["policy"]
