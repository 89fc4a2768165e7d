"""The hold of a reclaim at a guest: when there is one, what it takes back, and what ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.guest.capabilities import read_capabilities
from memhint.guest.commands import GET_MEMINFO
from memhint.guest.errors import GuestError
from memhint.levers.cache import CacheLever, CacheTarget
from memhint.levers.cache_hold import CacheHold
from memhint.objects.policy import Origin, effective
from memhint.objects.reclaim import Reclaim, ReclaimState, Stop
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.builders import NOW
from tests.unit.guest.fake_reclaim import FakeGuest

ALLOW = effective({Origin.OPERATOR: {"guest_actions": "allow"}})


class Bench:
    """A guest, and the lever with both its halves."""

    def __init__(self) -> None:
        self.guest = FakeGuest()
        self.lever = CacheLever(self.guest.clock, self.guest.sleep)
        self.hold = CacheHold(self.lever, 10.0)
        self.told: list[Reclaim] = []
        self.word: Verdict | None = None
        self.waited_for = False
        self.boot: str | None = None
        self.footprint = self.guest.footprint

    @property
    def target(self) -> CacheTarget:
        def capabilities():
            with self.guest.conversation() as agent:
                return replace(read_capabilities(agent), boot_id=self.boot)

        return CacheTarget(
            builders.domain_observation(), ALLOW, capabilities, self.guest.conversation, lambda: self.footprint()
        )

    def tell(self, now: Reclaim) -> Verdict | None:
        self.told.append(now)
        return self.word

    def done(self, **request) -> Reclaim:
        wanted = Reclaim(builders.reclaim_request(**{"hold": 600.0, **request}), state=ReclaimState.RUNNING)
        return self.lever.pull(self.target, wanted, lambda now: None)

    def begun(self, **request) -> Reclaim:
        return self.hold.begin(self.target, self.done(**request), NOW)

    def look(self, holding: Reclaim, at: float = NOW + 10) -> Reclaim:
        began = self.guest.now
        return self.hold.look(
            self.target, holding, lambda: at + self.guest.now - began, self.tell, lambda: self.waited_for
        )


def test_it_keeps_what_the_reclaim_left() -> None:
    found = Bench().begun()
    assert (found.state, found.stop, found.ended) == (ReclaimState.HOLDING, Stop.DONE, None)
    assert found.held is not None
    assert (found.held.since, found.held.until) == (NOW, NOW + 600)
    assert (found.held.kept, found.held.used) == (40 * MIB, 40 * MIB)


@pytest.mark.parametrize("request_", [{"hold": 0.0}, {"dry_run": True}])
def test_what_is_not_to_be_held_is_not(request_) -> None:
    bench = Bench()
    done = bench.done(**request_)
    looks = len(bench.guest.calls(GET_MEMINFO))
    assert bench.hold.begin(bench.target, done, NOW) is done
    assert len(bench.guest.calls(GET_MEMINFO)) == looks


def test_a_reclaim_that_pressure_ended_is_not_held() -> None:
    bench = Bench()
    bench.guest.pressure = lambda at: 0.5 if at < 1 else 40.0
    found = bench.begun()
    assert (found.stop, found.state, found.held) == (Stop.PRESSURE, ReclaimState.DONE, None)
    assert found.reclaimed > 0


def test_a_guest_that_gave_nothing_or_cannot_be_looked_at_is_not_held() -> None:
    bench = Bench()
    bench.guest.cold = 0
    assert bench.begun().held is None
    bench.guest.cold = 100 * MIB
    done = bench.done()
    bench.guest.deaf = 2
    assert bench.hold.begin(bench.target, done, NOW).state is ReclaimState.HOLDING  # it was only slow
    bench.guest.deaf = 3
    found = bench.hold.begin(bench.target, done, NOW)
    assert (found.state, found.held) == (ReclaimState.DONE, None)
    assert "not held: no answer" in found.verdict.detail


def test_what_the_guest_fills_again_is_taken_back_and_reported() -> None:
    bench = Bench()
    holding = bench.begun()
    assert bench.look(holding) == holding
    bench.guest.cold = 500 * MIB
    found = bench.look(holding)
    assert found.state is ReclaimState.HOLDING
    assert (found.held.again, found.held.rounds, bench.guest.cold) == (500 * MIB, 1, 0)
    assert (found.reclaimed, found.returned, found.request) == (600 * MIB, 600 * MIB, holding.request)
    assert bench.guest.unreported == 0
    assert found.calls > holding.calls
    assert found.verdict == holding.verdict
    progress = [one.held.again for one in bench.told]
    assert progress == sorted(progress)
    assert {one.state for one in bench.told} == {ReclaimState.HOLDING}
    bench.guest.cold = 200 * MIB
    again = bench.look(found, NOW + 20)
    assert (again.held.again, again.held.rounds) == (700 * MIB, 2)


def test_pressure_seen_in_a_look_ends_it_and_asks_for_nothing() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.cold, bench.guest.avg10 = 500 * MIB, 25.0
    asked = len(bench.guest.calls())
    found = bench.look(holding)
    assert (found.state, found.held.stop) == (ReclaimState.DONE, Stop.PRESSURE)
    assert (found.verdict.answer, found.verdict.reason) == (Answer.APPLIED, Reason.GUEST_PRESSURE)
    assert len(bench.guest.calls()) == asked
    assert bench.guest.cold == 500 * MIB


def test_pressure_that_taking_back_makes_ends_it() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.cold, bench.guest.pressure = 500 * MIB, lambda at: 40.0
    found = bench.look(holding)
    assert (found.state, found.held.stop) == (ReclaimState.DONE, Stop.PRESSURE)
    assert found.verdict.reason is Reason.GUEST_PRESSURE


def test_a_guest_that_uses_what_it_filled_again_keeps_it() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.active += 400 * MIB
    found = bench.look(holding)
    assert (found.held.stop, found.verdict.reason) == (Stop.WANTED, Reason.IN_USE)
    assert bench.guest.active == 440 * MIB


def test_a_word_ends_it_after_the_call_under_way() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.cold = 500 * MIB
    bench.word = Verdict(Answer.REFUSED, Reason.CONSENT, "guest_actions was set to deny meanwhile")
    found = bench.look(holding)
    assert (found.state, found.held.stop, found.verdict.reason) == (
        ReclaimState.DONE,
        Stop.INTERRUPTED,
        Reason.CONSENT,
    )
    assert bench.guest.cold == 500 * MIB


def test_a_guest_that_does_not_answer_a_look_is_its_callers_to_judge() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.deaf = 1
    with pytest.raises(GuestError):
        bench.look(holding)
    bench.guest.cold, bench.guest.silent = 500 * MIB, 3
    with pytest.raises(GuestError):  # three calls without an answer take longer than a go may
        bench.look(holding)
    bench.hold, bench.guest.silent = CacheHold(bench.lever, 60.0), 3
    found = bench.look(holding)
    assert (found.held.stop, found.verdict.reason) == (Stop.LOST, Reason.GUEST_TIMEOUT)


def test_the_last_go_ends_with_the_hold() -> None:
    bench = Bench()
    holding = bench.begun(timeout=60.0)
    bench.guest.cold, bench.guest.speed = 500 * MIB, 50 * MIB
    found = bench.look(holding, NOW + 597)
    assert found.held.again <= 4 * 50 * MIB
    assert found.state is ReclaimState.HOLDING


def test_one_go_takes_no_longer_than_said_whatever_the_request_may_take() -> None:
    bench = Bench()
    holding = bench.begun(timeout=600.0)
    bench.guest.cold, bench.guest.speed = 600 * MIB, 20 * MIB
    found = bench.look(holding)
    assert found.state is ReclaimState.HOLDING
    assert 0 < found.held.again <= 10 * 20 * MIB
    assert bench.look(found, NOW + 60).held.again > found.held.again


def test_it_gives_way_to_others_after_the_call_under_way_and_goes_on_later() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.cold, bench.waited_for = 500 * MIB, True
    assert bench.look(holding) == holding  # not even asked
    bench.waited_for = False
    ask = bench.guest._reclaim

    def somebody_comes(arguments):
        bench.waited_for = True
        return ask(arguments)

    bench.guest._reclaim = somebody_comes
    found = bench.look(holding)
    assert (found.state, found.held.stop, found.held.again) == (ReclaimState.HOLDING, None, 200 * MIB)
    assert found.held.rounds == 1
    bench.waited_for, bench.guest._reclaim = False, ask
    assert bench.look(found, NOW + 20).held.again == 500 * MIB


def test_a_guest_that_gives_nothing_again_and_again_is_left_alone() -> None:
    bench = Bench()
    now = bench.begun()
    bench.guest.cold = 500 * MIB
    bench.guest.changes = {"reclaimed": 0, "stop": "exhausted", "more": False}
    for at in (NOW + 10, NOW + 20):
        bench.guest.cold = 500 * MIB
        now = bench.look(now, at)
        assert now.state is ReclaimState.HOLDING
    bench.guest.cold = 500 * MIB
    now = bench.look(now, NOW + 30)
    assert (now.state, now.held.stop, now.held.again) == (ReclaimState.DONE, Stop.EXHAUSTED, 0)
    assert "gave up nothing" in now.verdict.detail


def test_it_has_ended_when_it_ended_and_not_when_its_look_began() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.cold, began = 600 * MIB, bench.guest.now
    bench.guest.pressure = lambda at: 0.5 if at < began + 1.5 else 40.0
    found = bench.look(holding)
    assert found.held.stop is Stop.PRESSURE
    assert found.ended > NOW + 11


def test_what_came_back_stays_known_while_the_footprint_is_not() -> None:
    bench = Bench()
    holding = bench.begun()
    bench.guest.cold, bench.footprint = 500 * MIB, lambda: None
    found = bench.look(holding)
    assert found.held.again == 500 * MIB
    assert found.returned == holding.returned == 600 * MIB


@pytest.mark.parametrize(
    ("before", "after", "ends"), [("a", "b", True), ("a", "a", False), (None, "b", False), ("a", None, False)]
)
def test_what_another_boot_of_the_guest_read_is_its_own(before: str | None, after: str | None, ends: bool) -> None:
    bench = Bench()
    bench.boot = before
    holding = bench.begun()
    bench.boot, bench.guest.cold = after, 500 * MIB
    found = bench.look(holding)
    assert (found.held.stop is Stop.INTERRUPTED) is ends
    assert (bench.guest.cold == 500 * MIB) is ends
    assert ("booted again" in found.verdict.detail) is ends
