"""When VMs wait in vain for huge pages, for how long that is remembered, and where nobody would wait anyway."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.host import NumaNode
from memhint.objects.units import GIB
from memhint.planner.compaction import (
    LONGEST,
    REST,
    WINDOW,
    Compaction,
    HugeWaits,
    Lacking,
    lacking_on,
    next_compaction,
    turns_vain,
    waits_of,
)
from tests.unit import builders

HOST = builders.host_observation()


class Host:
    """One on which somebody waits now and then."""

    def __init__(self) -> None:
        self.seen = HugeWaits(40, 9)
        self.state = next_compaction(Compaction(), self.seen, None, lacking=Lacking.EVERYWHERE)

    def look(
        self,
        stalls: int = 0,
        fails: int = 0,
        elapsed: float | None = 10.0,
        *,
        collapses: int = 0,
        lacking: Lacking = Lacking.EVERYWHERE,
    ) -> Compaction:
        self.seen = HugeWaits(self.seen.stall + stalls, self.seen.fail + fails, self.seen.collapse_failed + collapses)
        self.state = next_compaction(self.state, self.seen, elapsed, lacking=lacking)
        return self.state


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.mark.parametrize(("stalls", "fails", "vain"), [(2, 2, True), (4, 2, True), (1, 1, False), (5, 2, False)])
def test_waiting_in_vain_is_twice_in_ten_seconds_and_half_of_all_waits(
    host: Host, stalls: int, fails: int, vain: bool
) -> None:
    assert host.look(stalls, fails).vain is vain


def test_a_collapse_that_found_no_huge_page_is_no_vm_that_waits(host: Host) -> None:
    assert not host.look(4, 4, collapses=2).vain
    assert not host.look(5, 5, collapses=2).vain  # one VM did
    assert host.look(6, 6, collapses=2).vain


def test_a_collapse_that_failed_with_less_trouble_is_not_counted_below_nothing(host: Host) -> None:
    assert not host.look(1, 1, 3.0, collapses=1).vain
    assert not host.look(1, 1, 3.0).vain
    assert host.look(2, 2, 3.0).vain


def test_a_collapse_that_failed_between_two_cycles_brings_none_on(host: Host) -> None:
    seen = HugeWaits(host.seen.stall + 2, host.seen.fail + 2, host.seen.collapse_failed + 1)
    assert not turns_vain(host.state, seen, 1.0)


def test_a_longer_cycle_has_to_see_more_of_it(host: Host) -> None:
    assert not host.look(11, 11, 60.0).vain
    assert host.look(12, 12, 60.0).vain


def test_looks_within_ten_seconds_count_together_and_no_longer(host: Host) -> None:
    assert not host.look(1, 1, 3.0).vain
    assert host.look(1, 1, 3.0).vain
    host.state = replace(host.state, rest=0.0, last=0.0)
    for _ in range(4):
        assert not host.look(1, 1, WINDOW).vain


def test_a_first_look_and_a_kernel_that_does_not_count_tell_nothing() -> None:
    assert not next_compaction(Compaction(), HugeWaits(9, 9), None, lacking=Lacking.EVERYWHERE).vain
    before = Compaction(HugeWaits(5, 5), rest=30.0, last=REST)
    assert not next_compaction(replace(before, rest=0.0), HugeWaits(1005, 1005), None, lacking=Lacking.EVERYWHERE).vain
    assert next_compaction(before, None, 10.0, lacking=Lacking.EVERYWHERE) == replace(before, age=10.0, rest=20.0)


def test_counters_of_a_kernel_that_began_again_tell_nothing() -> None:
    before = Compaction(HugeWaits(50, 50))
    assert next_compaction(before, HugeWaits(3, 3), 10.0, lacking=Lacking.EVERYWHERE) == Compaction(HugeWaits(3, 3))


def test_it_is_tried_again_after_the_rest_and_rests_longer_each_time_that_it_was_in_vain_again(host: Host) -> None:
    rests = []
    for _ in range(5):
        rests.append(host.look(2, 2).rest)
        assert host.look(0, 0, host.state.rest - 1).vain
        assert not host.look(0, 0, 1.0).vain
    assert rests == [REST, 2 * REST, 4 * REST, LONGEST, LONGEST]


def test_a_try_that_brought_huge_pages_ends_it(host: Host) -> None:
    host.look(2, 2)
    host.look(0, 0, REST)
    assert host.look(2, 2).last == 2 * REST
    host.look(0, 0, 2 * REST)
    assert host.look(3, 0).last == 2 * REST  # too few to tell
    assert host.look(4, 1).last == 0.0
    assert host.look(2, 2).rest == REST


def test_waits_while_it_rests_begin_it_again_and_do_not_double_it(host: Host) -> None:
    """As where memhint may not set `defrag`, and VMs go on waiting."""
    host.look(2, 2)
    assert host.look(9, 9).rest == REST


def test_where_blocks_are_free_nobody_is_kept_from_waiting_and_the_lesson_is_kept(host: Host) -> None:
    assert host.look(2, 2).vain
    assert not host.look(lacking=Lacking.NOWHERE).vain
    assert host.look(lacking=Lacking.EVERYWHERE).vain


def test_a_look_between_two_cycles_finds_what_the_next_one_would(host: Host) -> None:
    def seen(stalls: int, fails: int) -> HugeWaits:
        return HugeWaits(host.seen.stall + stalls, host.seen.fail + fails)

    assert turns_vain(host.state, seen(3, 2), 1.0)
    assert not turns_vain(host.state, seen(1, 1), 1.0)
    host.look(2, 2)
    assert not turns_vain(host.state, seen(9, 9), 1.0)  # known by now


def on_two_nodes(free: float, before: Lacking) -> Lacking:
    """One of 8 GiB is whole, of another one so many GiB are in free blocks, and a third has no memory."""
    nodes = (NumaNode(0, 8 * GIB, 0), NumaNode(1, 8 * GIB, 0), NumaNode(2, 0, 0))
    return lacking_on(replace(HOST, numa=nodes, free_huge={0: 8 * GIB, 1: int(free * GIB), 2: 0}), before)


def test_few_blocks_are_an_eighth_of_a_node_and_enough_of_them_a_quarter() -> None:
    some, none = Lacking.SOMEWHERE, Lacking.NOWHERE
    assert [on_two_nodes(free, none) for free in (0.0, 0.9, 1.0, 1.9)] == [some, some, none, none]
    assert [on_two_nodes(free, some) for free in (0.0, 0.9, 1.0, 1.9, 2.0)] == [some, some, some, some, none]


def test_a_host_without_nodes_counts_as_one_and_one_that_does_not_tell_as_lacking() -> None:
    assert lacking_on(replace(HOST, numa=(), free_huge={0: 0}), Lacking.NOWHERE) is Lacking.EVERYWHERE
    assert lacking_on(replace(HOST, numa=(), free_huge={0: HOST.memory.total}), Lacking.NOWHERE) is Lacking.NOWHERE
    assert lacking_on(replace(HOST, free_huge={}), Lacking.NOWHERE) is Lacking.EVERYWHERE


def test_only_where_every_node_lacks_them_somebody_looks_between_two_cycles(host: Host) -> None:
    assert host.state.watched
    assert not host.look(lacking=Lacking.SOMEWHERE).watched
    assert not host.look(lacking=Lacking.NOWHERE).watched
    host.look(2, 2)
    assert host.state.vain
    assert not host.state.watched


def test_a_vm_that_is_bound_to_a_node_without_them_is_kept_from_waiting_too(host: Host) -> None:
    assert host.look(2, 2, lacking=Lacking.SOMEWHERE).vain


def test_the_counters_are_those_of_the_host_or_none() -> None:
    assert waits_of(HOST) == HugeWaits(40, 9)
    assert HOST.huge is not None
    assert waits_of(replace(HOST, huge=replace(HOST.huge, collapse_failed=4))) == HugeWaits(40, 9, 4)
    assert waits_of(replace(HOST, huge=None)) is None
