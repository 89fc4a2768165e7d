"""Wishes and requests of a fleet on every database: what agents say in any order, and what is forgotten."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import select, text, update

from lab.servers.directory import wait_until
from memhint.objects.policy import Origin, PolicyError
from memhint.objects.reclaim import Hold, Reclaim, ReclaimState, Stop, released
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store import Store, open_store
from memhint.store.central_policies import CentralPolicies
from memhint.store.errors import StoreError
from memhint.store.fleet import Fleet, HostRecord, State
from memhint.store.reclaims import PRESUMED, Reclaims
from memhint.store.summaries import Summaries
from memhint.store.tables import central_policy
from tests.functional.store.test_fleet import in_threads
from tests.unit import builders
from tests.unit.builders import DB, NOW, WEB
from tests.unit.store.lived import lived

EPOCH = "001700000000000-0000000a"
DAY = 86_400.0


class Central:
    """A controller's store, whose clock is the test's."""

    def __init__(self, url: str) -> None:
        self.now = NOW
        self.store: Store = open_store(url)
        self.reclaims: Reclaims = self.store.reclaims
        self.policies = CentralPolicies(self.store.database, lambda _: self.now)
        store = self.store
        summaries = Summaries(store.domain_history)
        self.fleet = Fleet(
            store.database, store.history, store.events, summaries, self.reclaims, 3600.0, lambda _: self.now
        )

    def hear(self, *told: Reclaim, host: str = "host-a") -> None:
        self.fleet.take([], [HostRecord(host, (), (), 0, told)])

    def report(self, sequence: int, host: str = "host-a", *, empty: bool = False) -> None:
        changes = {"domains": ()} if empty else {}
        made = builders.report(host=host, epoch=EPOCH, sequence=sequence, **changes)
        self.fleet.take([State(made, sequence * 10.0)])

    def row(self, name: str = "req-1") -> Reclaim:
        found = self.reclaims.find(name)
        assert found is not None
        return found.reclaim


@pytest.fixture
def central(url: str):
    made = Central(url)
    yield made
    made.store.close()


QUEUED = Reclaim(builders.reclaim_request())
RUNNING = replace(QUEUED, state=ReclaimState.RUNNING, owner="agent", begun=NOW + 1)
FURTHER = replace(RUNNING, calls=2, reclaimed=4096 * 100)
DONE = replace(
    FURTHER, state=ReclaimState.DONE, verdict=Verdict(Answer.APPLIED), calls=3, before=2**30, after=2**29, ended=NOW + 9
)


@pytest.mark.parametrize("order", list(itertools.permutations([RUNNING, FURTHER, DONE])))
def test_a_request_ends_as_it_ended_in_whatever_order_that_is_told(
    central: Central, order: tuple[Reclaim, ...]
) -> None:
    central.reclaims.add(QUEUED, "host-a")
    furthest = 0
    rank = {id(one): number for number, one in enumerate((RUNNING, FURTHER, DONE), 1)}
    for one in (*order, *order):
        central.hear(one)
        furthest = max(furthest, rank[id(one)])
        assert central.row() == (RUNNING, FURTHER, DONE)[furthest - 1]
    central.hear(replace(DONE, state=ReclaimState.FAILED))
    assert central.row() == DONE
    assert len(central.reclaims.page().items) == 1


def test_a_batch_that_tells_it_all_at_once_tells_the_same(central: Central) -> None:
    central.reclaims.add(QUEUED, "host-a")
    central.hear(DONE, RUNNING, FURTHER)
    assert central.row() == DONE


def test_the_request_stays_as_it_was_asked_for(central: Central) -> None:
    central.reclaims.add(QUEUED, "host-a")
    skewed = replace(DONE, request=replace(DONE.request, at=1.0, expires=31.0, by="somebody else"))
    central.hear(skewed)
    assert central.row() == DONE


def test_what_was_asked_for_on_a_host_shows_here_too(central: Central) -> None:
    central.hear(RUNNING)
    central.hear(DONE)
    (one,) = central.reclaims.page(uuid=WEB).items
    assert (one.host, one.reclaim) == ("host-a", DONE)


def test_nobody_speaks_of_another_hosts_requests(central: Central) -> None:
    central.reclaims.add(QUEUED, "host-a")
    central.hear(DONE, host="host-b")
    assert central.row() == QUEUED


def test_a_request_that_nobody_tells_of_is_over_until_somebody_does(central: Central) -> None:
    central.reclaims.add(QUEUED, "host-a")
    central.now += 60 + 59
    central.fleet.sweep()
    assert central.row().state is ReclaimState.QUEUED
    central.now += 2
    central.fleet.sweep()
    assert (central.row().state, central.row().owner) == (ReclaimState.EXPIRED, PRESUMED)
    assert central.row().verdict.reason is Reason.EXPIRED
    central.hear(RUNNING)
    assert central.row().state is ReclaimState.EXPIRED  # what goes on ends, and that is told
    central.hear(DONE)
    assert central.row() == DONE


def test_a_request_that_began_on_a_host_that_is_silent_since_is_over_much_later(central: Central) -> None:
    central.reclaims.add(QUEUED, "host-a")
    central.hear(RUNNING)
    central.now += 60 + 60 + 599
    central.fleet.sweep()
    assert central.row().state is ReclaimState.RUNNING
    central.now += 2
    central.fleet.sweep()
    assert (central.row().state, central.row().verdict.reason) == (ReclaimState.FAILED, Reason.INTERRUPTED)
    central.hear(DONE)
    assert central.row() == DONE


def test_a_hold_is_told_in_any_order_and_is_over_long_after_its_own_time(central: Central) -> None:
    central.reclaims.add(replace(QUEUED, request=replace(QUEUED.request, hold=600.0)), "host-a")
    held = Hold(NOW + 9, NOW + 609, kept=2**20, used=0)
    holding = replace(
        DONE, request=replace(DONE.request, hold=600.0), state=ReclaimState.HOLDING, ended=None, held=held
    )
    further = replace(holding, calls=5, held=replace(held, again=2**24, rounds=1))
    for one in (further, RUNNING, holding, FURTHER):
        central.hear(one)
    assert central.row() == further
    central.now += 60 + 60 + 600 + 599
    central.fleet.sweep()
    assert central.row().state is ReclaimState.HOLDING
    central.now += 2
    central.fleet.sweep()
    presumed = central.row()
    assert (presumed.state, presumed.owner, presumed.held.stop) == (ReclaimState.DONE, PRESUMED, Stop.LOST)
    told = released(further, Stop.DONE, NOW + 609)
    central.hear(further, told)
    assert central.row() == told
    central.hear(further)
    assert central.row() == told


def test_requests_are_listed_in_parts_and_filtered(central: Central) -> None:
    for number in range(7):
        request = builders.reclaim_request(id=f"req-{number}", uuid=(WEB, DB)[number % 2], at=NOW + number // 2)
        central.reclaims.add(Reclaim(request), ("host-a", "host-b")[number % 2])
    every = [one.reclaim.request.id for one in central.reclaims.page().items]
    assert every == ["req-6", "req-4", "req-5", "req-2", "req-3", "req-0", "req-1"]
    last = central.reclaims.page(limit=3).items[-1].reclaim.request
    assert [one.reclaim.request.id for one in central.reclaims.page(before=(last.at, last.id)).items] == every[3:]
    assert [one.reclaim.request.id for one in central.reclaims.page(host="host-b").items] == ["req-5", "req-3", "req-1"]
    assert [one.reclaim.request.id for one in central.reclaims.page(uuid=DB).items] == ["req-5", "req-3", "req-1"]
    assert central.reclaims.page(state=ReclaimState.DONE).items == ()


def test_wishes_are_all_or_none_and_every_change_is_newer(central: Central) -> None:
    first = central.policies.set(WEB, {"dedup": "on", "reporting": "off"})
    assert first.values == {"dedup": "on", "reporting": "off"}
    with pytest.raises(PolicyError):
        central.policies.set(WEB, {"dedup": "off", "colour": "red"})
    second = central.policies.set(WEB, {}, ["reporting"])
    assert second.values == {"dedup": "on"}
    assert second.version > first.version
    assert central.policies.of(WEB) == second
    assert central.store.policies.inputs(WEB) == {WEB: {Origin.OPERATOR: {"dedup": "on"}}}
    last = central.policies.set(WEB, {}, ["dedup"])
    assert central.policies.of(WEB) == last
    assert last.values == {}
    assert central.policies.of(DB) is None


def test_wishes_are_found_by_the_host_that_has_the_vm(central: Central) -> None:
    central.report(1)
    central.report(1, "host-b", empty=True)
    held = central.policies.set(WEB, {"dedup": "on"})
    assert central.policies.on(["host-a", "host-b"]) == {"host-a": {WEB: held}}
    assert central.policies.on([]) == {}


def test_operators_who_change_wishes_at_once_lose_none(url: str, central: Central) -> None:
    several = [open_store(url) for _ in range(3)]

    def sets(store: Store, seed: int) -> Callable[[], object]:
        order = random.Random(seed)

        def work() -> object:
            for number in range(6):
                store.central_policies.set(order.choice((WEB, DB)), {"min_mb": str(seed * 10 + number)})
                store.central_policies.set(WEB, {("dedup", "balloon", "swap_out")[seed]: ("off", "deny", "deny")[seed]})
            return True

        return work

    in_threads([sets(store, seed) for seed, store in enumerate(several)])
    held = central.policies.of(WEB)
    assert held is not None
    assert set(held.values) >= {"dedup", "balloon", "swap_out"}
    for store in several:
        store.close()


def test_wishes_for_what_no_host_has_are_forgotten_after_long(central: Central) -> None:
    central.report(1)
    central.policies.set(WEB, {"dedup": "on"})
    central.policies.set("gone", {"dedup": "on"})
    central.now += 29 * DAY
    assert central.policies.prune(30 * DAY) == 0
    central.now += 2 * DAY
    lived(central.store, central.now, DAY)
    assert central.policies.prune(30 * DAY) == 1
    assert central.policies.of("gone") is None
    assert central.store.policies.inputs("gone") == {}
    assert central.policies.of(WEB) is not None


WAITING = {
    "postgresql": "SELECT count(*) FROM pg_locks WHERE NOT granted",
    "mariadb": "SELECT variable_value FROM information_schema.global_status"
    " WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
}


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_what_is_wished_again_while_old_wishes_are_forgotten_stays(central: Central, url: str) -> None:
    lived(central.store, central.now, DAY)
    central.policies.set("gone", {"dedup": "off"})
    central.now += 31 * DAY
    lived(central.store, central.now, DAY)
    pruned: list[int] = []
    pruning = threading.Thread(target=lambda: pruned.append(central.policies.prune(30 * DAY)))
    database = central.store.database
    with database.write() as connection:
        mine = central_policy.c.domain_uuid == "gone"
        connection.execute(update(central_policy).where(mine).values(seen=central.now))
        pruning.start()

        def waits() -> bool:
            with database.read() as other:
                return int(other.execute(text(WAITING[database.engine.dialect.name])).scalar_one()) > 0

        wait_until(waits, "it waits for the wish")
    pruning.join()
    assert pruned == [0]
    assert central.store.policies.inputs("gone") != {}


def test_what_hosts_have_is_not_written_again_each_time(central: Central) -> None:
    lived(central.store, central.now, DAY)
    central.report(1)
    central.policies.set(WEB, {"dedup": "on"})

    def seen() -> float:
        with central.store.database.read() as connection:
            return float(connection.execute(select(central_policy.c.seen)).scalar_one())

    first = seen()
    central.now += 3600
    lived(central.store, central.now, DAY)
    central.policies.prune(30 * DAY)
    assert seen() == first
    central.now += 2 * DAY
    lived(central.store, central.now, DAY)
    central.policies.prune(30 * DAY)
    assert seen() == central.now


def test_a_host_that_is_silent_for_long_is_forgotten_and_told_to_be(central: Central) -> None:
    central.report(1)
    token = central.store.hosts_view.token()
    central.now += 60
    central.fleet.sweep()
    assert central.fleet.forget(DAY) == ()
    central.now += DAY
    central.report(1, "host-b", empty=True)
    lived(central.store, central.now, DAY)
    assert central.fleet.forget(DAY) == ("host-a",)
    assert central.fleet.forget(DAY) == ()
    assert [one.name for one in central.store.hosts_view.all()] == ["host-b"]
    assert central.store.hosts_view.changed(token).deleted == ("host-a",)
    assert WEB in central.store.domains.changed(token).deleted
    assert central.store.reports.newest("host-a") is None
    central.report(9)
    assert [one.name for one in central.fleet.hosts()] == ["host-a", "host-b"]
    assert central.store.hosts_view.changed(token).deleted == ()


def test_a_document_of_a_request_that_no_guest_could_be_asked_is_refused(central: Central) -> None:
    with pytest.raises((StoreError, ValueError)):
        central.hear(replace(DONE, request=replace(DONE.request, size=1)))
    assert central.reclaims.page().items == ()
