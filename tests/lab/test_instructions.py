"""What the patched kernel costs a guest, counted instruction by instruction: a change that makes it dearer fails here.

The counts are of the guest and exact, however busy the machine is. `python -m bench.instructions` has all arms.
"""

from __future__ import annotations

import pytest

from bench import instructions as bench
from bench.counted_guest import kernel, workshop

ARMS = (bench.BASE, bench.DISABLED, bench.ENABLED)


@pytest.fixture(scope="module")
def counted() -> bench.Counted:
    """One run of each arm. Passes come ten times as often per instruction as they ever would."""
    kernels = {series: kernel(series) for series in ("none", "stats")}
    with workshop("qemu-system-x86_64") as works:
        return bench.count(works, kernels, ARMS, bench.QUICK)


@pytest.mark.parametrize("arm", [bench.DISABLED, bench.ENABLED], ids=["disabled at most 0.1 %", "enabled at most 1 %"])
def test_reporting_costs_no_more_instructions_than(arm: bench.Arm, counted: bench.Counted) -> None:
    found = bench.judge([arm], counted)
    assert len(found) == len(bench.WORKLOADS)
    missed = [str(verdict) for verdict in found if not verdict.met]
    assert not missed, "\n".join([*missed, bench.where(arm, counted)])


def test_the_clock_of_the_guest_agrees_with_the_plugin(counted: bench.Counted) -> None:
    """With -icount the time stamp counter follows the steps. A block that a fault ends early is counted whole."""
    for run in (one for arm in counted.values() for one in arm):
        for window in run.values():
            assert window.ticks == pytest.approx(window.steps << bench.QUICK.shift, rel=0.002)
