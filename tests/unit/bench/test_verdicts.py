"""Which arm is held to what, from windows that were made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import instructions as bench
from bench.counted_guest import GuestFailed
from bench.drain import FREED_MIB, Drain
from bench.figures import Window
from memhint.objects.units import GIB, MIB


def run(instructions: int, pages: int = 0) -> dict[str, Window]:
    return {name: Window(name, 1000, 0, pages, pages // 512, instructions, 0, 100, 2000) for name in bench.WORKLOADS}


def counted(**instructions: int) -> bench.Counted:
    arms = {"base": bench.BASE, "disabled": bench.DISABLED, "enabled": bench.ENABLED, "flush": bench.FORCED}
    return {arms[name].name: [run(value)] * 3 for name, value in instructions.items()}


@pytest.mark.parametrize(
    ("disabled", "enabled", "met"),
    [
        (1_000_000, 1_000_000, [True, True]),
        (1_000_900, 1_009_000, [True, True]),
        (1_001_100, 1_009_000, [False, True]),
        (1_000_000, 1_011_000, [True, False]),
        (990_000, 990_000, [True, True]),
    ],
)
def test_each_workload_is_held_to_the_arm_s_target(disabled: int, enabled: int, met: list[bool]) -> None:
    found = bench.judge(
        [bench.BASE, bench.DISABLED, bench.ENABLED], counted(base=1_000_000, disabled=disabled, enabled=enabled)
    )
    assert len(found) == 2 * len(bench.WORKLOADS)
    assert [one.met for one in found] == [value for value in met for _ in bench.WORKLOADS]


def test_an_arm_that_did_not_do_what_it_is_for_gives_no_figure() -> None:
    silent, reporting = list(run(1).values()), list(run(1, pages=512).values())
    bench._check(bench.ENABLED, reporting)
    bench._check(bench.DISABLED, silent)
    bench._check(bench.STOCK, silent)
    for arm, found in ((bench.ENABLED, silent), (bench.DISABLED, reporting), (bench.PAUSED, reporting)):
        with pytest.raises(GuestFailed, match=arm.name):
            bench._check(arm, found)


def test_host_cost_is_per_gib_reported_and_left_open_below_one() -> None:
    base, pages = run(1), GIB // 4096
    more = {name: replace(one, minor_faults=400, system_us=32000, pages=pages) for name, one in base.items()}
    few = {name: replace(one, pages=pages // 4) for name, one in more.items()}
    found = bench.host_costs({bench.BASE.name: [base], bench.FORCED.name: [more]}, bench.FORCED)
    assert found is not None
    assert (found[0].median, found[1].median) == (300, 30)
    assert bench.host_costs({bench.BASE.name: [base], bench.FORCED.name: [few]}, bench.FORCED) is None


def drained(at: float | None) -> Drain:
    curve = ((0.1, 0.0), (at, FREED_MIB * MIB * 0.95)) if at is not None else ((0.1, 0.0),)
    return Drain(curve, curve, 1, 1)


@pytest.mark.parametrize(
    ("slow", "quick", "met"), [(10.0, 1.0, True), (10.0, 2.1, False), (10.0, None, False), (None, 1.0, False)]
)
def test_the_shorter_delay_is_held_to_five_times(slow: float | None, quick: float | None, met: bool) -> None:
    drains = {bench.AT_2000: [drained(slow)], bench.AT_200: [drained(quick)], bench.AT_ONCE: [drained(0.1)]}
    assert bench.judge_drains(drains).met is met


def test_one_bad_pair_of_drains_is_enough() -> None:
    drains = {bench.AT_2000: [drained(10.0)] * 2, bench.AT_200: [drained(1.0), drained(4.0)]}
    assert not bench.judge_drains(drains).met
