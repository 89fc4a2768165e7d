"""How much of the disk swap backs VMs: what is free, and what is theirs already."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.gap import Gap, GapReason
from memhint.objects.host import VmsCgroup
from memhint.objects.plan import Bound
from memhint.objects.units import GIB
from memhint.planner.backing import swap_backing
from tests.unit import builders
from tests.unit.planner.worlds import Vm, World, capacity_of

IDLE = Vm(8 * GIB, 1 * GIB, 1 * GIB)
SLICE = "/sys/fs/cgroup/machine.slice"


def host(used: int, *, vms: int | None = None, in_memory: int = 0, ksm: bool = False, free: int | None = None):
    memory = builders.host_memory(swap_total=32 * GIB, swap_used=used, swap_in_memory=in_memory, swap_free=free)
    cgroup = None if vms is None else VmsCgroup(SLICE, vms)
    return builders.host_observation(memory=memory, ksm=builders.ksm() if ksm else None, vms=cgroup)


def swapped(*amounts: int):
    return [
        builders.domain_observation(uuid=f"vm-{pid}", process=builders.process(pid=pid, swap=amount))
        for pid, amount in enumerate(amounts)
    ]


def test_swap_that_others_fill_backs_no_vm() -> None:
    assert swap_backing(host(28 * GIB), swapped(0)) == 4 * GIB


def test_what_vms_have_swapped_out_is_backed_by_where_it_lies() -> None:
    assert swap_backing(host(28 * GIB), swapped(20 * GIB, 8 * GIB)) == 32 * GIB
    assert swap_backing(host(28 * GIB), swapped(3 * GIB)) == 7 * GIB


def test_what_lies_in_zram_lies_on_no_disk() -> None:
    assert swap_backing(host(28 * GIB, in_memory=6 * GIB), swapped(8 * GIB)) == 6 * GIB


def test_pages_that_ksm_merged_count_once_as_the_cgroup_has_them_and_not_at_all_without_it() -> None:
    ten = swapped(*[GIB] * 10)  # one and the same GiB
    assert swap_backing(host(29 * GIB, vms=1 * GIB, ksm=True), ten) == 4 * GIB
    assert swap_backing(host(29 * GIB, ksm=True), ten) == 3 * GIB


@pytest.mark.parametrize(("reason", "backed"), [(GapReason.UNREADABLE, 3 * GIB), (GapReason.UNSUPPORTED, 13 * GIB)])
def test_where_ksm_cannot_be_read_pages_may_have_been_merged(reason: GapReason, backed: int) -> None:
    unread = replace(host(29 * GIB), gaps=(Gap("ksm", reason),))
    assert swap_backing(unread, swapped(*[GIB] * 10)) == backed


def test_swap_that_the_cgroup_may_use_and_others_have_taken_is_not_there() -> None:
    assert swap_backing(host(0, free=4 * GIB), swapped(0)) == 4 * GIB


@pytest.mark.parametrize(("most", "backed"), [(None, 32 * GIB), (64 * GIB, 32 * GIB), (5 * GIB, 5 * GIB), (0, 0)])
def test_swap_that_the_vms_cgroup_may_not_have_backs_none_of_them(most: int | None, backed: int) -> None:
    """As with MemorySwapMax=0 of machine.slice: disk swap is there, and nothing of a VM can go to it."""
    seen = host(0)
    assert swap_backing(replace(seen, vms=VmsCgroup(SLICE, 0, swap_most=most)), swapped(0)) == backed


def test_a_vm_that_was_not_read_has_nothing_there() -> None:
    unread = [builders.domain_observation(process=None)]
    assert swap_backing(host(28 * GIB), unread) == 4 * GIB


@pytest.mark.parametrize("swap_of_others", [0, 28 * GIB])
def test_the_headroom_is_no_more_than_what_could_be_backed(swap_of_others: int) -> None:
    world = World((IDLE,) * 6, free=40 * GIB, swap_total=32 * GIB, swap_of_others=swap_of_others)
    found = capacity_of(world)
    assert found.back == found.pool - found.reserve - found.other + 32 * GIB - swap_of_others - found.assigned
    if swap_of_others:
        assert (found.headroom, found.bound) == (max(0, found.back), Bound.BACK)
