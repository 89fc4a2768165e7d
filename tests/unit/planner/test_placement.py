from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.placement import Unfit
from memhint.objects.summary import Freshness, HostSummary, host_summary
from memhint.objects.units import GIB
from memhint.planner.placement import place, refusal
from tests.unit import builders

LINE = host_summary(builders.report(), builders.NOW)


def host(name: str, headroom: int, nominal: int = 0, **changes: object) -> HostSummary:
    return replace(LINE, name=name, headroom=headroom, nominal_headroom=nominal, **changes)  # type: ignore[arg-type]


def test_the_fullest_host_that_still_takes_one_is_filled_first() -> None:
    found = place([host("a", 9), host("b", 5), host("c", 1)], memory=2, count=4, overhead=0)
    assert [(one.name, one.placed) for one in found.hosts] == [("a", 2), ("b", 2), ("c", 0)]
    assert found.placed == 4


def test_each_vm_takes_its_overhead_too() -> None:
    assert place([host("a", 10)], memory=4, count=9, overhead=1).placed == 2


def test_a_host_knows_best_what_qemu_takes_there() -> None:
    found = place([host("a", 12, slot_overhead=2), host("b", 12)], memory=4, count=9, overhead=1)
    assert [one.slots for one in found.hosts] == [2, 2]
    found = place([host("a", 10, slot_overhead=2), host("b", 10)], memory=4, count=9, overhead=1)
    assert [one.slots for one in found.hosts] == [1, 2]


def test_nominal_counts_what_assigned_memory_alone_would_let_in() -> None:
    found = place([host("a", 0, 7), host("b", 9, -5)], memory=2, count=9, overhead=0)
    assert (found.placed, found.nominal) == (4, 3)
    assert [one.nominal_slots for one in found.hosts] == [3, 0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"state": Freshness.SILENT}, Unfit.SILENT),
        ({"state": Freshness.STALE}, Unfit.STALE),
        ({"admitting": False, "detail": "pressure 24 %"}, Unfit.PRESSURE),
        ({"headroom": GIB - 1}, Unfit.HEADROOM),
    ],
)
def test_why_a_host_takes_none(changes: dict[str, object], reason: Unfit) -> None:
    said = refusal(replace(LINE, **changes), GIB)  # type: ignore[arg-type]
    assert said is not None
    assert said.reason is reason
    assert said.detail


HOSTS = st.lists(
    st.builds(
        host,
        st.text("abc", min_size=1, max_size=3),
        st.integers(0, 100),
        st.integers(-50, 100),
        state=st.sampled_from(Freshness),
        admitting=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda one: one.name,
)


@given(HOSTS, st.integers(1, 30), st.integers(1, 50), st.integers(0, 5))
def test_nothing_is_placed_where_it_does_not_fit_and_nothing_is_left_that_fits(
    hosts: list[HostSummary], memory: int, count: int, overhead: int
) -> None:
    found = place(hosts, memory, count, overhead)
    by_name = {one.name: one for one in hosts}
    for one in found.hosts:
        assert one.placed * (memory + overhead) <= by_name[one.name].headroom
        assert one.placed <= one.slots
        assert one.placed == 0 or one.refusal is None
    assert found.placed == sum(one.placed for one in found.hosts) <= count
    assert found.placed == min(count, sum(one.slots for one in found.hosts))
    assert place(list(reversed(hosts)), memory, count, overhead) == found
    assert place(hosts, memory, count + 1, overhead).placed >= found.placed


def test_a_refusal_says_that_more_than_the_memory_is_asked_for() -> None:
    found = place([host("a", GIB)], GIB, 1, 128 << 20).hosts[0].refusal
    assert found is not None
    assert found.detail == "1152 MiB with QEMU's overhead are asked for, 1024 MiB may be promised"
