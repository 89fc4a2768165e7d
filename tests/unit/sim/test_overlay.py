"""Courses of a trace, worn by VMs that come and go."""

import numpy as np
import pytest

from memhint.objects.units import GIB
from memhint.sim.fleet import HostShape
from memhint.sim.overlay import overlay
from memhint.sim.trace import UsageSeries

DAY = 86400.0
TIMES = [hour * 3600.0 for hour in range(72)]
SHAPE = HostShape(pool=64 * GIB)
COURSES = {
    "by hour": UsageSeries(4.0 * GIB, TIMES, [hour % 24 * GIB / 8 for hour in range(72)]),
    "late": UsageSeries(8.0 * GIB, TIMES[36:], [5.0 * GIB] * 36),
    "too large": UsageSeries(65.0 * GIB, TIMES, [1.0] * 72),
}


def test_each_vm_uses_what_one_of_the_trace_used_at_that_time() -> None:
    fleet = overlay(COURSES, name="worn", hosts=8, step=3600.0, seed=3, shape=SHAPE)
    assert (fleet.steps, fleet.hosts, set(fleet.memory)) == (72, 8, {4.0 * GIB, 8.0 * GIB})
    by_hour = np.flatnonzero(fleet.memory == 4.0 * GIB)
    late = np.flatnonzero(fleet.memory == 8.0 * GIB)
    assert fleet.arrival[late].min() >= 36
    for vm in by_hour[:50]:
        begin, end = fleet.arrival[vm] + 1, min(fleet.departure[vm], 72)
        assert fleet.course(vm).tolist() == [hour % 24 * GIB / 8 + fleet.own for hour in range(begin, end)]
    for vm in late[:50]:
        assert set(fleet.course(vm)) <= {5.0 * GIB + fleet.own}
    # As offered: VMs that would be there at once have twice the memory of the hosts, and most of them go within a day.
    alive = (fleet.arrival <= 40) & (fleet.departure > 40)
    assert fleet.memory[alive].sum() == pytest.approx(2 * 8 * 64 * GIB, rel=0.5)
    assert np.median(fleet.departure - fleet.arrival) < 24


def test_one_seed_gives_one_fleet_and_it_may_be_shorter_than_the_trace() -> None:
    one, same, other = (
        overlay(COURSES, name="worn", hosts=2, step=3600.0, seed=seed, days=1, shape=SHAPE) for seed in (1, 1, 2)
    )
    assert one.steps == 24
    assert np.array_equal(one.departure, same.departure)
    assert not np.array_equal(one.departure[:50], other.departure[:50])
    with pytest.raises(ValueError, match=r"the trace has 3\.0 days"):
        overlay(COURSES, name="worn", hosts=2, step=3600.0, seed=1, days=4, shape=SHAPE)
    with pytest.raises(ValueError, match="larger than a host"):
        overlay(COURSES, name="worn", hosts=2, step=3600.0, seed=1, shape=HostShape(pool=2 * GIB))
