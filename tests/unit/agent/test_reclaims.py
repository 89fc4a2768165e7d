"""Requests under way: taken up once, one at a time per VM, kept in the store, and never done twice or lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from memhint.agent.reclaims import Reclaims
from memhint.guest.capabilities import Capabilities, read_capabilities
from memhint.guest.errors import GuestAgentAbsent
from memhint.levers.cache import CacheLever
from memhint.objects.domain import DomainState
from memhint.objects.lever import Observed
from memhint.objects.policy import Origin, effective
from memhint.objects.reclaim import Reclaim, ReclaimError, ReclaimState, Stop
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason
from memhint.store.errors import StoreError
from memhint.store.host_store import open_host_store
from tests.unit import builders
from tests.unit.builders import DB, NOW, WEB
from tests.unit.guest.fake_reclaim import FakeGuest

ALLOW = effective({Origin.OPERATOR: {"guest_actions": "allow"}})
DENY = effective({})


class FakeGuests:
    """The agent's Guests as far as reclaims use it."""

    def __init__(self, **guests: FakeGuest) -> None:
        self.guests = {WEB: guests["web"], DB: guests["db"]}
        self.stopping = False

    @contextmanager
    def conversation(self, uuid):
        if self.stopping:
            raise GuestAgentAbsent("the agent is stopping")
        with self.guests[uuid].conversation() as agent:
            yield agent

    def capabilities(self, uuid) -> Capabilities:
        return self.ask_capabilities(uuid)

    def ask_capabilities(self, uuid) -> Capabilities:
        with self.guests[uuid].conversation() as agent:
            return read_capabilities(agent)


class FakeStore:
    """Requests in memory, with the rules of the real store."""

    def __init__(self, *requests: Reclaim) -> None:
        self.rows = {one.request.id: one for one in requests}
        self.away = False
        self.saves: list[Reclaim] = []
        self.stops: dict[str, str] = {}

    def interrupted(self) -> dict[str, str]:
        return {name: why for name, why in self.stops.items() if not self.rows[name].state.ended}

    def open(self) -> tuple[Reclaim, ...]:
        if self.away:
            raise StoreError("away")
        return tuple(one for one in self.rows.values() if not one.state.ended)

    def save(self, reclaim: Reclaim) -> bool:
        if self.away:
            raise StoreError("away")
        self.saves.append(reclaim)
        if self.rows[reclaim.request.id].state.ended:
            return False
        self.rows[reclaim.request.id] = reclaim
        return True


WENT_AWAY = pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("deny", Reason.CONSENT),
        ("gone", Reason.NOT_RUNNING),
        ("paused", Reason.NOT_RUNNING),
        ("new", Reason.NOT_RUNNING),
    ],
)
"""How a VM, or consent to ask it, goes away meanwhile, and the reason that is given."""


class Bench:
    """Two guests, a store, and reclaims whose threads are run when they are told to."""

    def __init__(self, *requests: Reclaim, at_once: int = 4) -> None:
        self.now = NOW
        self.web, self.db = FakeGuest(), FakeGuest(cold=300 * MIB)
        self.guests = FakeGuests(web=self.web, db=self.db)
        self.store = FakeStore(*requests)
        self.at_once = at_once
        self.domains = [builders.domain_observation(), builders.domain_observation(uuid=DB, name="db-1")]
        self.policies = {WEB: ALLOW, DB: ALLOW}
        self.reclaims = self.another()

    def another(self) -> Reclaims:
        self.threads = []
        return Reclaims(
            self.guests,
            self.store,
            lambda domain: self.guests.guests[domain.uuid].footprint(),
            at_once=self.at_once,
            hold_every=10.0,
            lever=CacheLever(self.web.clock, self._sleep),
            wall=lambda: self.now,
            start=self.threads.append,
        )

    def go_away(self, change: str) -> None:
        """Take from the first VM what a reclaim began under: see WENT_AWAY."""
        web = self.domains[0]
        if change == "deny":
            self.policies[WEB] = DENY
        elif change == "gone":
            self.domains.pop(0)
            del self.policies[WEB]
        elif change == "paused":
            self.domains[0] = replace(web, state=DomainState.PAUSED)
        else:
            self.domains[0] = replace(web, process=builders.process(pid=5000))

    def _sleep(self, seconds: float) -> None:
        self.web.sleep(seconds)
        self.db.now = self.web.now

    def cycle(self, *, run: bool = True) -> None:
        self.reclaims.follow(self.domains, self.policies)
        while run and self.threads:
            self.threads.pop(0)()

    def row(self, name: str = "req-1") -> Reclaim:
        return self.store.rows[name]


def queued(**changes) -> Reclaim:
    return Reclaim(builders.reclaim_request(**changes))


def test_one_that_cannot_be_read_keeps_no_other_from_beginning(tmp_path: Path) -> None:
    store = open_host_store(f"sqlite:///{tmp_path}/memhint.db", host="host-a")
    for name, uuid in (("req-1", WEB), ("req-2", DB)):
        store.reclaims.add(queued(id=name, uuid=uuid))
    with closing(sqlite3.connect(tmp_path / "memhint.db")) as connection, connection:
        connection.execute("UPDATE reclaim SET document = '{' WHERE id = 'req-1'")
    bench = Bench()
    bench.store = store.reclaims
    bench.reclaims = bench.another()
    bench.cycle()
    assert bench.db.calls()
    assert bench.web.calls() == []
    done = store.reclaims.get("req-2")
    assert done is not None
    assert done.state is ReclaimState.DONE
    store.close()


def test_a_request_is_marked_before_the_guest_is_asked_and_kept_to_its_end() -> None:
    bench = Bench(queued())
    bench.cycle(run=False)
    assert bench.row().state is ReclaimState.RUNNING
    assert bench.web.calls() == []
    assert bench.reclaims.state(bench.domains[0]).observed is Observed.ON
    bench.cycle()
    assert (bench.row().state, bench.row().stop, bench.row().returned) == (ReclaimState.DONE, Stop.DONE, 600 * MIB)
    assert bench.row().ended is not None
    progress = [one.reclaimed // MIB for one in bench.store.saves if one.state is ReclaimState.RUNNING]
    assert progress[0] == 0
    assert set(progress) >= {200, 400}
    assert progress == sorted(progress)
    asked = len(bench.web.calls())
    bench.cycle()
    assert len(bench.web.calls()) == asked


def test_one_vm_is_asked_for_one_thing_at_a_time_and_others_beside_it() -> None:
    bench = Bench(queued(), queued(id="req-2", at=NOW + 1), queued(id="req-3", uuid=DB, at=NOW + 2))
    bench.cycle(run=False)
    assert [bench.row(name).state for name in ("req-1", "req-2", "req-3")] == ["running", "queued", "running"]
    bench.cycle()
    bench.cycle()
    assert bench.row("req-2").state is ReclaimState.DONE
    assert bench.row("req-2").begun is not None


def test_no_more_guests_at_once_than_allowed() -> None:
    bench = Bench(queued(), queued(id="req-3", uuid=DB), at_once=1)
    bench.cycle(run=False)
    assert [one.state for one in bench.store.rows.values()] == ["running", "queued"]


def test_what_a_dead_agent_had_begun_has_failed_and_is_not_done_again() -> None:
    bench = Bench(queued(), queued(id="req-2", at=NOW + 1))
    bench.cycle(run=False)  # begun, and then the agent is killed
    bench.reclaims = bench.another()
    bench.cycle()
    assert (bench.row().state, bench.row().verdict.reason) == (ReclaimState.FAILED, Reason.INTERRUPTED)
    assert bench.row("req-2").state is ReclaimState.DONE  # what waited is not lost
    assert sum(call["bytes"] == 600 * MIB for call in bench.web.calls()) == 1


def test_stopping_ends_it_after_its_call_and_says_so() -> None:
    bench = Bench(queued())
    ask = bench.web._reclaim

    def stopped_meanwhile(arguments):
        bench.reclaims.close(0)
        return ask(arguments)

    bench.web._reclaim = stopped_meanwhile
    bench.cycle()
    assert (bench.row().state, bench.row().verdict.reason) == (ReclaimState.FAILED, Reason.INTERRUPTED)
    assert bench.row().reclaimed == 200 * MIB
    assert len(bench.web.calls()) == 1
    bench.store.rows["req-2"] = queued(id="req-2")
    bench.cycle()
    assert bench.row("req-2").state is ReclaimState.QUEUED  # for the next agent


@pytest.mark.parametrize("present", [True, False])
def test_a_request_that_nobody_begins_in_time_expires(present: bool) -> None:
    bench = Bench(queued())
    if not present:
        bench.domains, bench.policies = [], {}
        bench.cycle()
        assert bench.row().state is ReclaimState.QUEUED  # its VM may yet come
    bench.now = NOW + 61
    bench.cycle()
    assert (bench.row().state, bench.row().verdict.reason) == (ReclaimState.EXPIRED, Reason.EXPIRED)
    assert bench.web.calls() == []


def test_without_its_store_nothing_is_begun_and_an_end_is_kept_for_later() -> None:
    bench = Bench(queued())
    bench.cycle(run=False)
    bench.store.away = True
    bench.cycle()
    assert bench.row().state is ReclaimState.RUNNING
    bench.cycle()
    bench.store.away = False
    bench.cycle()
    assert bench.row().state is ReclaimState.DONE
    assert bench.row().returned == 600 * MIB
    assert sum(call["bytes"] == 600 * MIB for call in bench.web.calls()) == 1


@WENT_AWAY
def test_it_ends_when_consent_or_vm_go_away_meanwhile(change: str, reason: Reason) -> None:
    bench = Bench(queued())
    bench.cycle(run=False)
    bench.go_away(change)
    work, bench.threads = bench.threads, []
    bench.reclaims.follow(bench.domains, bench.policies)
    work[0]()
    assert bench.row().verdict.reason is reason
    assert bench.row().state in (ReclaimState.FAILED, ReclaimState.REFUSED)
    assert bench.web.calls() == []


def test_a_refusal_is_an_end_like_any_other() -> None:
    bench = Bench(queued())
    bench.policies[WEB] = DENY
    bench.cycle()
    assert (bench.row().state, bench.row().verdict.reason) == (ReclaimState.REFUSED, Reason.CONSENT)
    assert bench.reclaims.state(bench.domains[0]).verdict.answer is Answer.REFUSED


def test_a_defect_shows_as_a_failure() -> None:
    bench = Bench(queued())
    bench.guests.ask_capabilities = lambda uuid: 1 / 0
    bench.cycle()
    assert bench.row().state is ReclaimState.FAILED
    assert "ZeroDivisionError" in bench.row().verdict.detail
    assert not bench.reclaims.busy(WEB)


def test_the_agents_own_requests_are_in_no_store() -> None:
    bench = Bench()
    request = bench.reclaims.submit(WEB, 300 * MIB, reason="the host is under pressure", by="ladder", psi_limit=20.0)
    assert bench.reclaims.busy(WEB)
    assert bench.reclaims.news(WEB) is None
    bench.cycle()
    news = bench.reclaims.news(WEB)
    assert news is not None
    assert news.request.id == request.request.id
    assert (news.state, news.returned) == (ReclaimState.DONE, 300 * MIB)
    assert not bench.reclaims.busy(WEB)
    assert bench.store.saves == []
    assert bench.web.calls()[0]["psi-limit"] == 20.0


def test_the_agents_own_requests_can_be_taken_back_and_expire() -> None:
    bench = Bench()
    first = bench.reclaims.submit(WEB, None, reason="pressure", by="ladder")
    bench.reclaims.cancel(first.request.id, "the pressure is over")
    bench.cycle()
    assert bench.web.calls() == []
    news = bench.reclaims.news(WEB)
    assert news is not None
    assert news.verdict.detail == "the pressure is over"
    bench.reclaims.submit(WEB, None, reason="pressure", by="ladder", time_to_live=5.0)
    bench.now += 6
    bench.cycle()
    assert bench.reclaims.news(WEB).state is ReclaimState.EXPIRED
    assert bench.web.calls() == []


def test_one_under_way_is_taken_back_after_its_call() -> None:
    bench = Bench()
    request = bench.reclaims.submit(WEB, None, reason="pressure", by="ladder")
    ask = bench.web._reclaim

    def taken_back(arguments):
        bench.reclaims.cancel(request.request.id, "enough")
        return ask(arguments)

    bench.web._reclaim = taken_back
    bench.cycle()
    news = bench.reclaims.news(WEB)
    assert (news.stop, news.verdict.detail, len(bench.web.calls())) == (Stop.INTERRUPTED, "enough", 1)


@pytest.mark.parametrize(
    "changes", [{"size": 1}, {"psi_limit": 101.0}, {"timeout": 0.0}, {"time_to_live": 0.0}, {"reason": "a\x1bb"}]
)
def test_a_request_that_makes_no_sense_is_not_queued(changes) -> None:
    bench = Bench()
    arguments = {"size": None, "reason": "why", "by": "ladder"} | changes
    with pytest.raises(ReclaimError):
        bench.reclaims.submit(WEB, **arguments)
    assert not bench.reclaims.busy(WEB)


def test_one_in_the_store_is_taken_back_before_it_begins() -> None:
    bench = Bench(queued())
    bench.store.stops["req-1"] = "a mistake"
    bench.cycle()
    assert (bench.row().state, bench.row().verdict.detail) == (ReclaimState.FAILED, "a mistake")
    assert bench.row().verdict.reason is Reason.INTERRUPTED
    assert bench.web.calls() == []


def test_one_in_the_store_is_taken_back_while_it_goes_on() -> None:
    bench = Bench(queued())
    ask = bench.web._reclaim

    def taken_back(arguments):
        bench.store.stops["req-1"] = "enough"
        bench.reclaims.follow(bench.domains, bench.policies)
        return ask(arguments)

    bench.web._reclaim = taken_back
    bench.cycle()
    assert (bench.row().stop, bench.row().verdict.detail) == (Stop.INTERRUPTED, "enough")
    assert len(bench.web.calls()) == 1


def test_what_one_asked_of_a_vm_is_taken_back_whether_it_waits_or_goes_on() -> None:
    bench = Bench(queued(by="ladder", uuid=DB))
    bench.reclaims.submit(WEB, None, reason="idle", by="ladder")
    bench.cycle(run=False)  # both go on
    bench.reclaims.submit(WEB, None, reason="idle", by="ladder")
    other = bench.reclaims.submit(WEB, None, reason="idle", by="somebody")
    for uuid in (WEB, DB):
        bench.reclaims.withdraw(uuid, "ladder", "enough", asked="short")
    assert len(bench.reclaims._schedule.waiting) == 2
    for uuid in (WEB, DB):
        bench.reclaims.withdraw(uuid, "ladder", "enough")
    assert [one.request.id for one in bench.reclaims._schedule.waiting] == [other.request.id]
    bench.cycle()
    assert bench.row().state is ReclaimState.DONE  # of the store: not submitted here
    assert bench.reclaims.news(WEB).verdict.detail == "enough"
    assert bench.web.calls() == []


def test_one_that_gets_no_thread_has_failed_and_blocks_nobody() -> None:
    bench = Bench(queued())
    start = bench.reclaims._start

    def no_thread(_) -> None:
        raise RuntimeError("can't start new thread")

    bench.reclaims._start = no_thread
    bench.cycle()
    assert bench.row().state is ReclaimState.FAILED
    assert "can't start new thread" in bench.row().verdict.detail
    assert not bench.reclaims.busy(WEB)
    bench.reclaims._start = start
    bench.store.rows["req-2"] = queued(id="req-2", at=NOW + 1)
    bench.cycle()
    assert bench.row("req-2").state is ReclaimState.DONE
