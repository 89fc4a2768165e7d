"""How much of the disk swap backs VMs: what is free, and what is theirs already."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects import codec
from memhint.objects.exclusion import Excluded, Exclusion
from memhint.objects.gap import Gap, GapReason
from memhint.objects.host import HostObservation, SwapLimit, VmsCgroup
from memhint.objects.plan import Bound
from memhint.objects.units import GIB
from memhint.planner.backing import swap_backing
from memhint.planner.plan import Planned, plan
from memhint.planner.state import PlannerState, start
from tests.unit import builders
from tests.unit.planner.worlds import LATER, SETTINGS, Vm, World, capacity_of

IDLE = Vm(8 * GIB, 1 * GIB, 1 * GIB)
SLICE = "/sys/fs/cgroup/machine.slice"
UNREAD = Gap("vms", GapReason.UNREADABLE)


def host(used: int, *, vms: int | None = None, in_memory: int = 0, ksm: bool = False, free: int | None = None):
    memory = builders.host_memory(swap_total=32 * GIB, swap_used=used, swap_in_memory=in_memory, swap_free=free)
    cgroup = None if vms is None else VmsCgroup(SLICE, vms)
    return builders.host_observation(memory=memory, ksm=builders.ksm() if ksm else None, vms=cgroup)


def backing(seen: HostObservation, domains, demands=(), before: int | None = None) -> int:
    return swap_backing(seen, domains, demands, before)


def swapped(*amounts: int):
    return [
        builders.domain_observation(uuid=f"vm-{pid}", process=builders.process(pid=pid, swap=amount))
        for pid, amount in enumerate(amounts)
    ]


def test_swap_that_others_fill_backs_no_vm() -> None:
    assert backing(host(28 * GIB), swapped(0)) == 4 * GIB


def test_what_vms_have_swapped_out_is_backed_by_where_it_lies() -> None:
    assert backing(host(28 * GIB), swapped(20 * GIB, 8 * GIB)) == 32 * GIB
    assert backing(host(28 * GIB), swapped(3 * GIB)) == 7 * GIB


def test_what_lies_in_zram_lies_on_no_disk() -> None:
    assert backing(host(28 * GIB, in_memory=6 * GIB), swapped(8 * GIB)) == 6 * GIB


def test_what_zswap_may_still_take_backs_nothing() -> None:
    seen = host(28 * GIB)
    for room, left in ((3 * GIB, 1 * GIB), (5 * GIB, 0)):
        there = replace(seen, memory=replace(seen.memory, zswap_room=room))
        assert backing(there, swapped(0)) == left


def test_pages_that_ksm_merged_count_once_as_the_cgroup_has_them_and_not_at_all_without_it() -> None:
    ten = swapped(*[GIB] * 10)  # one and the same GiB
    assert backing(host(29 * GIB, vms=1 * GIB, ksm=True), ten) == 4 * GIB
    assert backing(host(29 * GIB, ksm=True), ten) == 3 * GIB


@pytest.mark.parametrize(("reason", "backed"), [(GapReason.UNREADABLE, 3 * GIB), (GapReason.UNSUPPORTED, 13 * GIB)])
def test_where_ksm_cannot_be_read_pages_may_have_been_merged(reason: GapReason, backed: int) -> None:
    unread = replace(host(29 * GIB), gaps=(Gap("ksm", reason),))
    assert backing(unread, swapped(*[GIB] * 10)) == backed


def test_swap_that_the_cgroup_may_use_and_others_have_taken_is_not_there() -> None:
    assert backing(host(0, free=4 * GIB), swapped(0)) == 4 * GIB


@pytest.mark.parametrize(("most", "backed"), [(None, 32 * GIB), (64 * GIB, 32 * GIB), (5 * GIB, 5 * GIB), (0, 0)])
def test_swap_that_the_vms_cgroup_may_not_have_backs_none_of_them(most: int | None, backed: int) -> None:
    """As with MemorySwapMax=0 of machine.slice: disk swap is there, and nothing of a VM can go to it."""
    seen = host(0)
    assert backing(replace(seen, vms=VmsCgroup(SLICE, 0, swap_most=most)), swapped(0)) == backed


@pytest.mark.parametrize(("before", "backed"), [(None, 32 * GIB), (5 * GIB, 5 * GIB), (0, 0)])
def test_what_the_vms_cgroup_may_have_holds_on_while_it_cannot_be_read(before: int | None, backed: int) -> None:
    unread = replace(host(0), gaps=(UNREAD,))
    assert backing(unread, swapped(0), before=before) == backed
    assert backing(host(0), swapped(0), before=before) == 32 * GIB  # it is known that there is none


def limited(*limits: tuple[int, str]):
    """A host with limits of swap in GiB, each of some VMs that one letter names."""
    return replace(host(0), swap_limits=tuple(SwapLimit(most * GIB, tuple(vms)) for most, vms in limits))


def assigned(**sizes: int):
    return [builders.demand(uuid=uuid, assigned=size * GIB) for uuid, size in sizes.items()]


@pytest.mark.parametrize(
    ("limits", "backed"),
    [
        ([], 32),  # nothing is limited: all of the disk swap backs
        ([(0, "a"), (0, "b")], 0),
        ([(0, "a")], 6),  # the other one may have all that it was given there
        ([(3, "a"), (20, "b")], 9),
        ([(5, "ab")], 5),
        ([(5, "ab"), (1, "a")], 5),
        ([(5, "ab"), (1, "a"), (2, "b")], 3),
        ([(9, "ab"), (0, "a"), (8, "b")], 6),
        ([(0, "gone")], 14),
    ],
)
def test_no_more_backs_vms_than_their_own_cgroups_may_have_together(limits: list, backed: int) -> None:
    assert backing(limited(*limits), [], assigned(a=8, b=6)) == backed * GIB


def test_the_least_of_disk_swap_the_cgroup_of_all_and_their_own_backs_vms() -> None:
    seen = limited((20, "a"))
    assert backing(seen, [], assigned(a=30, b=30)) == 32 * GIB
    assert backing(replace(seen, vms=VmsCgroup(SLICE, 0, swap_most=9 * GIB)), [], assigned(a=30, b=30)) == 9 * GIB


@pytest.mark.parametrize("most", [0, 64])
def test_a_vm_that_may_not_be_swapped_out_backs_nothing_whether_its_cgroup_says_so_or_not(most: int) -> None:
    """memhint itself sets the limit of a guaranteed VM to 0, where it may."""
    gold = builders.demand(uuid="g", assigned=8 * GIB, excluded=(Excluded(Exclusion.GUARANTEED, ""),))
    assert backing(limited((most, "g"), (64, "a")), [], [gold, *assigned(a=8)]) == 8 * GIB


@st.composite
def nested(draw: st.DrawFn) -> tuple[SwapLimit, ...]:
    """Limits of VMs, of two slices of them, and of all."""
    most = st.integers(0, 12).map(lambda size: size * GIB)
    groups = ["ab", "cd", "abcd", *"abcd"]
    chosen = draw(st.lists(st.sampled_from(groups), unique=True))
    return tuple(SwapLimit(draw(most), tuple(group)) for group in chosen)


@given(nested(), st.integers(0, 16), st.sampled_from("abcd"))
def test_a_vm_more_never_makes_room_under_limits(limits: tuple[SwapLimit, ...], size: int, last: str) -> None:
    """What backs rises by no more than what the VM was given, and all of that is to be backed."""
    seen = replace(limited(), swap_limits=limits)
    without = assigned(**dict.fromkeys("abcd".replace(last, ""), 6))
    one = builders.demand(uuid=last, assigned=size * GIB)
    before, after = (backing(seen, [], demands) for demands in (without, [*without, one]))
    assert after - size * GIB <= before


@given(nested(), nested())
def test_a_limit_more_backs_no_more(some: tuple[SwapLimit, ...], more: tuple[SwapLimit, ...]) -> None:
    demands = assigned(a=6, b=7, c=8, d=9)
    fewer, all_of_them = (replace(limited(), swap_limits=limits) for limits in (some, some + more))
    assert backing(all_of_them, [], demands) <= backing(fewer, [], demands)
    assert backing(all_of_them, [], demands) <= min(
        [limit.most for limit in all_of_them.swap_limits if len(limit.vms) == 4], default=32 * GIB
    )


def plans_after(*hosts: HostObservation) -> list[Planned]:
    """What is planned as the host is seen one way after the other, with the store in between."""
    world, found, state = World((IDLE,) * 6, free=40 * GIB, swap_total=32 * GIB), [], start(SETTINGS)
    domains = [vm.seen(number, vm.rss, vm.swap) for number, vm in enumerate(world.vms)]
    for number, seen in enumerate(hosts):
        found.append(plan(seen, domains, world.policies(), state, LATER * number, SETTINGS))
        state = codec.parse_as(codec.dump(found[-1].state), PlannerState)
    return found


def test_a_vm_that_cannot_be_read_for_a_while_makes_no_swap_of_what_the_vms_may_not_have() -> None:
    seen = World((IDLE,) * 6, free=40 * GIB, swap_total=32 * GIB).host(40 * GIB)
    none = replace(seen, vms=VmsCgroup(SLICE, 0, swap_most=0))
    unread = replace(seen, vms=None, gaps=(UNREAD,))
    plans = plans_after(none, unread, unread, seen)
    assert [one.plan.capacity.backing for one in plans] == [0, 0, 0, 32 * GIB]
    assert [one.state.swap_most for one in plans] == [0, 0, 0, None]


def test_a_vm_that_was_not_read_has_nothing_there() -> None:
    unread = [builders.domain_observation(process=None)]
    assert backing(host(28 * GIB), unread) == 4 * GIB


@pytest.mark.parametrize("swap_of_others", [0, 28 * GIB])
def test_the_headroom_is_no_more_than_what_could_be_backed(swap_of_others: int) -> None:
    world = World((IDLE,) * 6, free=40 * GIB, swap_total=32 * GIB, swap_of_others=swap_of_others)
    found = capacity_of(world)
    assert found.back == found.pool - found.reserve - found.other + 32 * GIB - swap_of_others - found.assigned
    if swap_of_others:
        assert (found.headroom, found.bound) == (max(0, found.back), Bound.BACK)
