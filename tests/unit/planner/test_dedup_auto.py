"""dedup=auto: begins on what is sure, ends on what is likely, and believes KSM's own figure over any estimate."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.estimate import DedupEstimate, GroupEstimate, KsmCost, VmEstimate
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from memhint.planner.dedup import AutoInput, plan_dedup
from memhint.planner.dedup_auto import AutoSettings, AutoState, decide, pays, pressed
from tests.unit import builders

SETTINGS = AutoSettings(enter_percent=10.0, exit_percent=5.0, least=64 * MIB, hold=100.0)
VMS = ("a", "b")


def group(percent: float, error: int = 0, project: str = "p1", members=VMS, looked: int = 4 * GIB) -> GroupEstimate:
    saving = int(looked * percent / 100)
    return GroupEstimate(project, tuple(members), 1.0, looked, 0, 0, saving, saving, error, KsmCost(0, 1.0, 1.0))


def told(*groups: GroupEstimate) -> DedupEstimate:
    return DedupEstimate(groups=groups, asking=groups)


def once(estimated, state=AutoState(), ksm=None, now=0.0, asking=None):  # noqa: B008
    return decide(asking or {"p1": VMS}, estimated, ksm, state, now, SETTINGS)


def test_it_begins_where_enough_is_sure() -> None:
    verdicts, state = once(told(group(30)))
    assert (verdicts, state.members) == ({}, VMS)


def test_what_sampling_may_have_got_wrong_does_not_count() -> None:
    verdicts, state = once(told(group(12, error=200 * MIB)))
    assert state.members == ()
    assert verdicts["a"].answer is Answer.UNCHANGED
    assert verdicts["a"].reason is Reason.DOES_NOT_PAY
    assert "12 %" in verdicts["a"].detail


def test_a_large_part_of_little_memory_is_not_worth_it() -> None:
    assert not pays(group(50, looked=100 * MIB), SETTINGS, now_on=False)
    assert pays(group(50, looked=200 * MIB), SETTINGS, now_on=False)


def test_it_stays_between_the_thresholds_and_ends_below() -> None:
    _, state = once(told(group(30)))
    _, state = once(told(group(7)), state)
    assert state.members == VMS
    verdicts, state = once(told(group(4)), state)
    assert state.members == ()
    assert verdicts["a"].reason is Reason.DOES_NOT_PAY
    _, state = once(told(group(7)), state)
    assert state.members == ()  # not before what begins it is reached again


@given(st.lists(st.floats(5.01, 9.99), min_size=1))
def test_noise_between_the_thresholds_changes_nothing(percents: list[float]) -> None:
    for first in (30.0, 1.0):
        _, state = once(told(group(first)))
        members = state.members
        for percent in percents:
            _, state = once(told(group(percent)), state)
            assert state.members == members


def test_before_there_is_an_estimate_it_waits() -> None:
    verdicts, state = once(DedupEstimate())
    assert (verdicts["a"].answer, verdicts["a"].reason) == (Answer.PENDING, Reason.NO_ESTIMATE)
    assert state.members == ()


def test_without_any_estimating_it_says_what_to_set() -> None:
    verdicts, _ = once(None)
    assert verdicts["a"].reason is Reason.NO_ESTIMATE
    assert "estimate_cpu_percent" in verdicts["a"].detail


def test_after_a_restart_those_that_were_on_stay_and_a_newcomer_waits() -> None:
    verdicts, state = once(DedupEstimate(), AutoState(members=("a",)))
    assert state.members == ("a",)
    assert verdicts["b"].reason is Reason.NO_ESTIMATE


def test_what_is_known_of_one_vm_says_nothing_of_what_two_save() -> None:
    alone = told(group(3, members=("a",)))
    verdicts, state = once(alone)
    assert state.members == ()
    assert {verdicts[uuid].answer for uuid in VMS} == {Answer.PENDING}
    # Both merge already, and the samples of one are lost: nothing is judged by the other.
    _, state = once(alone, AutoState(VMS))
    assert state.members == VMS
    # A newcomer is not waited for by those that merge.
    verdicts, state = once(told(group(3)), AutoState(VMS), asking={"p1": (*VMS, "c")})
    assert state.members == ()
    assert verdicts["a"].reason is Reason.DOES_NOT_PAY


def test_it_ends_only_when_every_vm_was_looked_at_since_it_ceased_to_pay() -> None:
    def low(first: float, second: float, percent: float = 2) -> DedupEstimate:
        """Both took in the same; one has been looked at since."""
        found = replace(group(percent), at=min(first, second))
        vms = tuple(
            VmEstimate(uuid, at, 0, 0, 0, 0, 0) for uuid, at in zip((*VMS, "x"), (first, second, 99.0), strict=True)
        )
        return DedupEstimate(vms=vms, groups=(found,), asking=(found,))

    on = AutoState(VMS)
    _, doubting = once(low(10.0, 3.0), on)
    assert doubting.members == VMS
    _, again = once(low(20.0, 3.0), doubting)
    assert again.members == VMS
    assert once(low(20.0, 9.0), again)[1].members == VMS
    # The other is looked at: both have the same, and it goes on as if nothing had been.
    _, calm = once(low(20.0, 12.0, percent=30), again)
    assert calm == on
    # Or they have not.
    verdicts, ended = once(low(20.0, 12.0), again)
    assert ended == AutoState()
    assert verdicts["a"].reason is Reason.DOES_NOT_PAY


def test_doubt_ends_within_a_day_and_heeds_no_clock_that_was_set_back() -> None:
    def found(first: float, second: float) -> DedupEstimate:
        vms = tuple(VmEstimate(uuid, at, 0, 0, 0, 0, 0) for uuid, at in zip(VMS, (first, second), strict=True))
        one = replace(group(2), at=min(first, second))
        return DedupEstimate(vms=vms, groups=(one,), asking=(one,))

    on = AutoState(VMS)
    _, doubting = once(found(9000.0, 3.0), on, now=50.0)
    # One of them is never looked at again.
    assert once(found(9500.0, 3.0), doubting, now=50.0 + 86_399.0)[1].members == VMS
    assert once(found(9500.0, 3.0), doubting, now=50.0 + 86_400.0)[1].members == ()
    # Both are, by a clock that was wrong before.
    assert once(found(7.0, 8.0), doubting, now=60.0)[1].members == VMS
    _, corrected = once(found(7.0, 8.0), doubting, now=60.0)
    assert once(found(9.0, 8.0), corrected, now=70.0)[1].members == ()


def test_what_one_vm_saves_by_itself_is_enough_for_it() -> None:
    verdicts, state = once(told(group(30, members=("a",))))
    assert state.members == ("a",)
    assert verdicts["b"].answer is Answer.PENDING


def test_a_negative_general_profit_ends_it_and_holds() -> None:
    good = told(group(30))
    _, state = once(good)
    at_start = builders.ksm(run=1, full_scans=10, general_profit=-1)
    _, state = once(good, state, at_start, 0.0)
    assert state.members == VMS  # it has not merged yet: metadata comes first
    _, state = once(good, state, builders.ksm(run=1, full_scans=12, general_profit=-1), 1.0)
    assert state.members == VMS
    verdicts, state = once(good, state, builders.ksm(run=1, full_scans=13, general_profit=-1), 2.0)
    assert state.members == ()
    assert "general_profit" in verdicts["a"].detail
    _, state = once(good, state, builders.ksm(run=0), 101.0)
    assert state.members == ()
    _, state = once(good, state, builders.ksm(run=0), 102.5)
    assert state.members == VMS


def test_ksm_that_rests_now_and_then_is_found_out_all_the_same() -> None:
    """It rests wherever a VM starts; its full scans count on."""
    good = told(group(30))
    _, state = once(good, AutoState(), builders.ksm(run=1, full_scans=10, general_profit=-1), 0.0)
    _, state = once(good, state, builders.ksm(run=1, full_scans=10, general_profit=-1), 1.0)
    for scans in (11, 12):
        _, state = once(good, state, builders.ksm(run=0, full_scans=scans, general_profit=-1), float(scans))
        assert state.members == VMS
        _, state = once(good, state, builders.ksm(run=1, full_scans=scans, general_profit=-1), scans + 0.5)
        assert state.members == VMS
    _, state = once(good, state, builders.ksm(run=1, full_scans=13, general_profit=-1), 13.0)
    assert (state.members, set(state.held)) == ((), {"p1"})


def test_a_profit_keeps_it_on() -> None:
    good = told(group(30))
    state = AutoState(members=VMS)
    for scans in range(10, 20):
        _, state = once(good, state, builders.ksm(run=1, full_scans=scans, general_profit=1), float(scans))
    assert state.members == VMS


def test_ksms_loss_counts_for_the_project_that_merges_only() -> None:
    both = told(group(30), group(30, project="p2", members=("c",)))
    state = AutoState(members=VMS, scans=1)
    _, state = once(both, state, builders.ksm(run=1, full_scans=9, general_profit=-1), 5.0, {"p1": VMS, "p2": ("c",)})
    assert state.members == ("c",)
    assert set(state.held) == {"p1"}


# -- in the plan -------------------------------------------------------------------------------------------------------


def plan(wishes: dict[str, str], estimated, state=AutoState(), projects=None):  # noqa: B008
    domains = [
        builders.domain_observation(
            uuid=name, name=name, facts=builders.facts(project=(projects or {}).get(name, "p1"), memory=GIB)
        )
        for name in wishes
    ]
    policies = {name: effective({Origin.OPERATOR: {"dedup": wish}}) for name, wish in wishes.items()}
    return plan_dedup(domains, policies, None, False, auto=AutoInput(estimated, None, state, 0.0, SETTINGS))


def test_auto_joins_those_that_are_on_where_it_pays() -> None:
    assert plan({"a": "auto", "b": "on"}, told(group(30))).members == {"a", "b"}
    assert plan({"a": "auto", "b": "on"}, told(group(3))).members == {"b"}


def test_auto_crosses_no_project() -> None:
    both = told(group(30, members=("a", "b")), group(30, project="p2", members=("c",)))
    found = plan({"a": "auto", "b": "auto", "c": "auto"}, both, projects={"c": "p2"})
    assert found.members == {"a", "b"}
    assert found.verdicts["c"].reason is Reason.TENANT
    assert found.auto.members == ("a", "b")  # who is refused was not switched on


def test_an_estimate_of_another_project_decides_nothing() -> None:
    found = plan({"a": "auto"}, told(group(90, project="p2", members=("a",))))
    assert found.members == frozenset()
    assert found.verdicts["a"].reason is Reason.NO_ESTIMATE


def test_a_vm_of_nobody_is_refused_whatever_the_estimate_says() -> None:
    found = plan({"a": "auto"}, told(group(90, project=None, members=("a",))), projects={"a": None})
    assert found.verdicts["a"].reason is Reason.NO_PROJECT


def test_under_pressure_a_small_gain_is_enough() -> None:
    small = told(group(3))
    verdicts, _ = once(small)
    assert verdicts["a"].reason is Reason.DOES_NOT_PAY
    verdicts, state = decide({"p1": VMS}, small, None, AutoState(), 0.0, pressed(SETTINGS))
    assert (verdicts, state.members) == ({}, VMS)
