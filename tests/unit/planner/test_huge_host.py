"""When the host's kernel is told to go about huge pages otherwise, and for how long."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.huge_host import HugeHost
from memhint.objects.ladder import Rung, RungState
from memhint.objects.lever import LeverName
from memhint.objects.relief import Relief
from memhint.planner.compaction import REST, Compaction, next_compaction
from memhint.planner.huge_host import huge_host
from memhint.planner.plan import Planned
from tests.unit import builders
from tests.unit.agent.views import asking

SEEN = builders.host_observation().huge
assert SEEN is not None


def after(stalls: int, fails: int, elapsed: float | None = 10.0, before: Compaction | None = None) -> Compaction:
    assert SEEN is not None
    before = before or Compaction(SEEN.compact_stall, SEEN.compact_fail)
    seen = replace(SEEN, compact_stall=SEEN.compact_stall + stalls, compact_fail=SEEN.compact_fail + fails)
    return next_compaction(before, seen, elapsed)


def test_waiting_in_vain_is_once_a_second_and_half_of_all_waits() -> None:
    assert after(10, 10).vain
    assert after(20, 10).vain
    assert not after(9, 9).vain
    assert not after(21, 10).vain
    assert not after(0, 0).vain


def test_a_first_look_and_a_kernel_that_does_not_count_tell_nothing() -> None:
    assert not next_compaction(Compaction(), SEEN, None).vain
    assert not after(1000, 1000, None).vain
    assert next_compaction(Compaction(5, 5, 30.0), None, 10.0) == Compaction(5, 5, 20.0)


def test_it_is_tried_again_after_the_rest() -> None:
    state = after(10, 10)
    state = after(10, 10, REST - 1, state)
    assert state.vain
    assert not after(10, 10, 1.0, state).vain


def wished(*, rungs: bool = False, vain: bool = False, relief: Relief | None = None) -> HugeHost:
    made: Planned = asking()
    ladder = replace(made.state.ladder, entered=(RungState(Rung.ADMISSION, 0.0, "why"),) if rungs else ())
    state = replace(made.state, ladder=ladder, compaction=Compaction(rest=1.0 if vain else 0.0))
    return huge_host(replace(made, plan=replace(made.plan, relief=relief or Relief()), state=state))


def test_a_calm_host_is_left_as_it_is() -> None:
    assert wished().empty


def test_nobody_waits_for_huge_pages_under_pressure_or_where_it_is_in_vain() -> None:
    assert wished(rungs=True) == wished(vain=True) == HugeHost(defrag="defer")


def test_khugepaged_hurries_while_vms_get_huge_pages_again_unless_there_are_none() -> None:
    assert wished(relief=Relief(thp={"a": 1})) == HugeHost(scan_sleep=1000)
    assert wished(relief=Relief(thp={"a": 1}), vain=True).scan_sleep is None


def test_who_takes_pieces_is_named() -> None:
    assert wished(relief=Relief(recycler={"a": 1})).by == (LeverName.RECYCLER,)
