"""Hosts that have earned a higher ratio take more VMs, and none of them violates."""

from dataclasses import replace

import pytest

from memhint.objects.units import GIB
from memhint.planner.earned_ratio import evidence, suffices
from memhint.planner.growth import table_of
from memhint.planner.settings import PlannerSettings
from memhint.sim.earned import EarnedOfHosts, before
from memhint.sim.earning import earn
from memhint.sim.engine import Strategy, simulate
from memhint.sim.generate import Workload, generate
from memhint.sim.growth import learn
from memhint.sim.policy import PolicyError, parse

PLANNER = replace(PlannerSettings(), allow_unbacked=1024 * GIB)


def test_a_month_s_evidence_makes_room_and_breaks_no_promise() -> None:
    made, other = (
        generate(Workload.CRON, hosts=3, days=days, step=3600.0, seed=seed, offered=2.0)
        for days, seed in ((6, 2), (31, 3))
    )
    growth, earned = parse(
        ["growth", "earned:3"],
        PLANNER,
        lambda: learn(other, PLANNER.overhead),
        lambda policy: earn(replace(other, hosts=2), policy, PLANNER, Strategy.FIRST_FIT),
    )
    assert growth.earned == ()
    assert any(suffices(evidence(one)) for one in earned.earned)
    usual, more = (simulate(made, one, PLANNER, strategy=Strategy.FIRST_FIT) for one in (growth, earned))
    assert more.ratio_mean > 1.05 * usual.ratio_mean
    assert (more.violation_share, more.oom_events) == (0.0, 0)


def test_without_a_history_nothing_is_earned() -> None:
    with pytest.raises(PolicyError, match="needs a history to learn from"):
        parse(["earned:2"], PLANNER, lambda: table_of(1, []))


def test_a_past_is_the_same_on_a_clock_that_begins_later() -> None:
    hosts = EarnedOfHosts(2)
    assert before(hosts.records()) == hosts.records()
    assert [evidence(one) for one in EarnedOfHosts(3, hosts.records()).records()] == [evidence(hosts.records()[0])] * 3
