"""Holds on a host: looks now and then, beside whatever else is asked, until time, guest, operator or agent end them."""

from __future__ import annotations

import pytest

from memhint.objects.lever import Observed
from memhint.objects.reclaim import ReclaimState, Stop
from memhint.objects.units import MIB
from memhint.objects.verdict import Reason
from tests.unit.agent.test_reclaims import WENT_AWAY, Bench, queued
from tests.unit.builders import DB, NOW, WEB
from tests.unit.guest.fake_reclaim import GET_MEMINFO


def holding(**changes) -> Bench:
    """A bench whose first request has been done, and holds."""
    bench = Bench(queued(**{"hold": 600.0, **changes}))
    bench.cycle()
    assert bench.row().state is ReclaimState.HOLDING
    return bench


def later(bench: Bench, seconds: float = 10.0) -> None:
    bench.now += seconds
    bench.cycle()


def test_it_is_kept_and_shown_and_holds_what_the_guest_fills_again() -> None:
    bench = holding()
    assert bench.row().held.until == NOW + 600
    assert bench.row().ended is None
    assert bench.reclaims.state(bench.domains[0]).observed is Observed.ON
    assert not bench.reclaims.busy(WEB)
    bench.web.cold = 300 * MIB
    later(bench)
    assert (bench.row().state, bench.row().held.again, bench.web.cold) == (ReclaimState.HOLDING, 300 * MIB, 0)
    assert bench.reclaims.news(WEB) == bench.row()
    later(bench, 600)
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.DONE)
    assert bench.row().ended == bench.now
    assert bench.reclaims.state(bench.domains[0]).observed is Observed.OFF
    bench.web.cold = 300 * MIB
    later(bench)
    assert bench.web.cold == 300 * MIB


def test_a_guest_is_not_looked_at_more_often_than_said() -> None:
    bench = holding()
    looks = len(bench.web.calls(GET_MEMINFO))
    later(bench, 4)
    later(bench, 4)
    assert len(bench.web.calls(GET_MEMINFO)) == looks
    later(bench, 4)
    assert len(bench.web.calls(GET_MEMINFO)) == looks + 1


def test_a_look_that_changes_nothing_is_not_written() -> None:
    bench = holding()
    saves = len(bench.store.saves)
    later(bench)
    assert len(bench.store.saves) == saves


def test_others_go_first_and_the_hold_goes_on() -> None:
    bench = holding()
    bench.store.rows["req-2"] = queued(id="req-2", at=NOW + 1)
    bench.web.cold = 100 * MIB
    bench.now += 10
    bench.cycle(run=False)
    assert len(bench.threads) == 1  # the request, and no look beside it
    bench.cycle()
    assert bench.row("req-2").state is ReclaimState.DONE
    assert bench.row("req-2").reclaimed == 100 * MIB
    assert bench.row().state is ReclaimState.HOLDING
    assert bench.reclaims.news(WEB).request.id == "req-2"
    bench.web.cold = 200 * MIB
    later(bench)
    assert bench.row().held.again == 200 * MIB
    assert bench.reclaims.news(WEB).request.id == "req-2"


def test_a_request_waits_for_a_look_under_way() -> None:
    bench = holding()
    bench.now += 10
    bench.cycle(run=False)
    assert len(bench.threads) == 1
    look = bench.threads.pop()
    bench.store.rows["req-2"] = queued(id="req-2", at=NOW + 1)
    bench.cycle(run=False)
    assert bench.row("req-2").state is ReclaimState.QUEUED
    look()
    bench.web.cold = 100 * MIB
    bench.cycle()
    assert bench.row("req-2").state is ReclaimState.DONE


def test_a_newer_hold_takes_the_place_of_the_old_one() -> None:
    bench = holding()
    bench.store.rows["req-2"] = queued(id="req-2", at=NOW + 1, hold=60.0)
    bench.web.cold = 100 * MIB
    later(bench)
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    assert "newer request" in bench.row().verdict.detail
    assert bench.row("req-2").state is ReclaimState.HOLDING
    assert bench.reclaims.news(WEB).request.id == "req-2"


def test_an_operator_takes_it_back() -> None:
    bench = holding()
    bench.store.stops["req-1"] = "enough"
    bench.web.cold = 300 * MIB
    bench.cycle()
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    assert bench.row().verdict.reason is Reason.INTERRUPTED
    assert bench.row().verdict.detail.endswith("enough")
    assert bench.web.cold == 300 * MIB


def test_an_operator_takes_it_back_while_it_takes_back() -> None:
    bench = holding()
    bench.web.cold = 600 * MIB
    ask = bench.web._reclaim

    def taken_back(arguments):
        bench.store.stops["req-1"] = "enough"
        bench.reclaims.follow(bench.domains, bench.policies)
        return ask(arguments)

    bench.web._reclaim = taken_back
    later(bench)
    assert (bench.row().held.stop, bench.row().held.again) == (Stop.INTERRUPTED, 200 * MIB)


@WENT_AWAY
def test_it_ends_when_consent_or_vm_go_away(change: str, reason: Reason) -> None:
    bench = holding()
    bench.go_away(change)
    asked = len(bench.web.asked)
    later(bench)
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    assert bench.row().verdict.reason is reason
    assert len(bench.web.asked) == asked


def test_one_look_may_be_missed_and_three_in_a_row_end_it() -> None:
    bench = holding()
    bench.web.deaf = 2
    for _ in range(3):
        later(bench)
    assert bench.row().state is ReclaimState.HOLDING
    bench.web.deaf = 3
    for _ in range(3):
        later(bench)
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.LOST)
    assert bench.row().verdict.reason is Reason.GUEST_TIMEOUT


def test_stopping_the_agent_ends_it_and_says_so() -> None:
    bench = holding()
    bench.reclaims.close(0)
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    assert "stopped or reloaded" in bench.row().verdict.detail


def test_stopping_the_agent_during_a_look_that_finds_nothing_ends_it_too() -> None:
    bench = holding()
    bench.now += 10
    bench.cycle(run=False)
    bench.reclaims.close(0)
    bench.threads.pop()()
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    assert "stopped or reloaded" in bench.row().verdict.detail


def test_a_hold_that_would_begin_while_the_agent_stops_does_not() -> None:
    bench = Bench(queued(hold=600.0))
    begin = bench.reclaims.hold.begin

    def stopped_meanwhile(*arguments):
        found = begin(*arguments)
        bench.reclaims.close(0)
        return found

    bench.reclaims.hold.begin = stopped_meanwhile
    bench.cycle()
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)


def test_what_a_dead_agent_held_has_ended() -> None:
    bench = holding()
    bench.reclaims = bench.another()
    bench.web.cold = 300 * MIB
    later(bench)
    assert (bench.row().state, bench.row().held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    assert "the agent ended" in bench.row().verdict.detail
    assert bench.row().reclaimed == 600 * MIB
    assert bench.web.cold == 300 * MIB


def test_a_defect_shows_as_the_holds_end() -> None:
    bench = holding()
    bench.reclaims.hold.look = lambda *_: 1 / 0
    later(bench)
    assert bench.row().held.stop is Stop.INTERRUPTED
    assert "ZeroDivisionError" in bench.row().verdict.detail


def test_with_the_store_away_it_goes_on_and_its_end_is_kept_for_later() -> None:
    bench = holding()
    bench.store.away = True
    bench.web.cold = 300 * MIB
    later(bench)
    assert bench.web.cold == 0
    later(bench, 600)
    assert bench.row().state is ReclaimState.HOLDING
    bench.store.away = False
    later(bench)
    assert (bench.row().state, bench.row().held.again) == (ReclaimState.DONE, 300 * MIB)


def test_no_more_guests_are_looked_at_at_once_than_allowed() -> None:
    bench = Bench(queued(hold=600.0), queued(id="req-2", uuid=DB, hold=600.0), at_once=1)
    bench.cycle()
    bench.cycle()
    assert [one.state for one in bench.store.rows.values()] == ["holding", "holding"]
    bench.now += 10
    bench.cycle(run=False)
    assert len(bench.threads) == 1


def test_with_more_holds_than_looks_at_once_each_has_its_turn() -> None:
    bench = Bench(queued(hold=600.0), queued(id="req-2", uuid=DB, hold=600.0), at_once=1)
    bench.cycle()
    bench.cycle()
    looks = [len(guest.calls(GET_MEMINFO)) for guest in (bench.web, bench.db)]
    for _ in range(4):
        later(bench)
    assert [len(guest.calls(GET_MEMINFO)) for guest in (bench.web, bench.db)] == [looks[0] + 2, looks[1] + 2]


@pytest.mark.parametrize("stored", [True, False])
def test_what_is_taken_back_gives_way_to_a_request_that_comes(stored: bool) -> None:
    bench = holding(timeout=600.0)
    bench.web.cold = 600 * MIB
    ask = bench.web._reclaim

    def somebody_asks(arguments):
        bench.web._reclaim = ask
        if stored:
            bench.store.rows["req-2"] = queued(id="req-2", at=NOW + 1)
        else:
            bench.reclaims.submit(WEB, None, reason="short", by="ladder")
        bench.reclaims.follow(bench.domains, bench.policies)
        return ask(arguments)

    bench.web._reclaim = somebody_asks
    later(bench)
    assert (bench.row().state, bench.row().held.again) == (ReclaimState.HOLDING, 200 * MIB)
    bench.cycle()
    assert bench.reclaims.news(WEB).reclaimed == 400 * MIB
    assert bench.row().state is ReclaimState.HOLDING


def test_no_look_begins_while_a_request_waits() -> None:
    bench = Bench(queued(hold=600.0), queued(id="req-2", uuid=DB, at=NOW + 1), at_once=1)
    bench.cycle()
    bench.now += 5
    bench.cycle(run=False)  # the other guest's request takes the only place
    bench.store.rows["req-3"] = queued(id="req-3", at=NOW + 2)
    bench.now += 5
    bench.cycle(run=False)
    assert [bench.row(name).state for name in ("req-2", "req-3")] == ["running", "queued"]
    assert len(bench.threads) == 1
    bench.web.cold = 100 * MIB
    bench.cycle()
    bench.cycle()
    assert bench.row("req-3").state is ReclaimState.DONE
    bench.web.cold = 200 * MIB
    later(bench)
    assert bench.row().held.again == 200 * MIB


def test_a_look_that_gets_no_thread_comes_later_and_blocks_nobody() -> None:
    bench = holding()
    start, bench.reclaims._start = bench.reclaims._start, _no_thread
    later(bench)
    assert not bench.reclaims._schedule.looking(WEB)
    bench.reclaims._start = start
    bench.web.cold = 300 * MIB
    later(bench)
    assert bench.row().held.again == 300 * MIB


def test_a_defect_in_keeping_its_end_blocks_nobody() -> None:
    bench = holding()
    bench.reclaims.hold.look = lambda *_: 1 / 0
    bench.reclaims._keep = lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        later(bench)
    assert not bench.reclaims._schedule.looking(WEB)


def test_that_it_holds_is_told_again_when_the_store_is_back() -> None:
    bench = Bench(queued(hold=600.0))
    bench.cycle(run=False)
    bench.store.away = True
    bench.threads.pop()()
    assert bench.row().state is ReclaimState.RUNNING
    bench.cycle()
    assert bench.row().state is ReclaimState.RUNNING
    bench.store.away = False
    bench.cycle()
    assert bench.row().state is ReclaimState.HOLDING
    saves = len(bench.store.saves)
    bench.cycle()
    assert len(bench.store.saves) == saves


def _no_thread(_) -> None:
    raise RuntimeError("can't start new thread")
