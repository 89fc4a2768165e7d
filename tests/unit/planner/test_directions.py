"""The table of doc/planner.md: which way the headroom goes when one thing changes. Every line of it is a property."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memhint.objects.domain import DomainState
from memhint.objects.guest import GuestKernel
from memhint.objects.host import NumaNode
from memhint.objects.plan import PredictorName
from memhint.objects.units import GIB, MIB
from memhint.planner.earned_ratio import ALL, Earned
from memhint.planner.growth import table_of
from memhint.planner.plan import Sight
from memhint.planner.settings import PlannerSettings
from tests.unit import builders
from tests.unit.planner.test_growth import tallies
from tests.unit.planner.worlds import LATER, PAGE, SETTINGS, Vm, World, capacity_of, earned_by, worlds

PAGES = Path(__file__).parents[3] / "doc" / "planner.md"
Changed = tuple[World, PlannerSettings]
EVERY = tuple(PredictorName)
OWN_PAST = (PredictorName.DECAYING_PEAK, PredictorName.QUANTILE)


@dataclass(frozen=True)
class Line:
    """One change of ``amount`` bytes (a multiple of pages), and the direction of H."""

    direction: str
    change: Callable[[World, int], Changed | World]
    predictors: tuple[PredictorName, ...] = EVERY
    sight: Sight = Sight.CLEAR
    base: Callable[[World], World] = lambda world: world
    growth: bool = True  # whether it holds under any growth table, too
    earned: tuple[PredictorName, ...] = EVERY  # with which it holds whatever ratio the host has earned, too


def first(world: World, **changes: object) -> World:
    """The world with its first VM changed."""
    head, *rest = world.vms
    return replace(world, vms=(replace(head, **changes), *rest))


def grows(world: World, amount: int) -> World:
    head = world.vms[0]
    more = min(amount, world.free, max(0, head.size - head.rss))
    return replace(first(world, rss=head.rss + more), free=world.free - more)


def fell(world: World) -> World:
    """The first VM used more before than now: growth since would be another change."""
    head = world.vms[0]
    return first(world, before=max(head.before, head.rss + head.swap))


def swapped_out(world: World, amount: int) -> World:
    head = world.vms[0]
    some = min(amount, head.rss)
    return replace(first(world, rss=head.rss - some, swap=head.swap + some), free=world.free + some)


def merges(world: World, amount: int) -> World:
    some = min(amount, sum(vm.rss for vm in world.vms)) // PAGE * PAGE
    nodes = tuple(replace(one, free=one.free + some) for one in world.nodes)
    return replace(world, merged=some, free=world.free + some, nodes=nodes)


def one_more(world: World, amount: int, **changes: object) -> World:
    some = min(amount, world.free)
    return replace(world, vms=(*world.vms, Vm(amount, some, some, new=True, **changes)), free=world.free - some)


def on_huge_pages(world: World, amount: int) -> World:
    return replace(world, vms=(*world.vms, Vm(amount, 0, 0, facts={"hugepages": True, "hugetlb": amount})))


def half_huge(world: World) -> World:
    """One more VM, half of which is on huge pages."""
    half = Vm(2 * GIB, 0, 0, facts={"hugepages": True, "hugetlb": GIB})
    return replace(world, vms=(*world.vms, half))


def partly(world: World, _: int) -> World:
    *rest, last = world.vms
    return replace(world, vms=(*rest, replace(last, facts={"hugepages": False, "hugetlb": 0}, new=True)))


def gone(world: World, _: int) -> World:
    head, *rest = world.vms
    return replace(world, vms=tuple(rest), free=world.free + head.rss)


def other_grows(world: World, amount: int) -> World:
    more = min(amount, world.free)
    return replace(world, other=world.other + more, free=world.free - more)


def pool_grows(world: World, amount: int) -> World:
    more = min(amount, world.free) // (2 * MIB) * (2 * MIB)
    return replace(world, hugetlb=world.hugetlb + more, free=world.free - more)


def setting(name: str, scale: Callable[[int], object]) -> Callable[[World, int], Changed]:
    return lambda world, amount: (world, replace(SETTINGS, **{name: scale(amount)}))


def grouped(world: World, _: int) -> World:
    return replace(world, vms=tuple(replace(vm, policy={**vm.policy, "group": "web"}) for vm in world.vms))


def bound_to_a_node(world: World, amount: int) -> World:
    node = NumaNode(0, world.total, min(amount, world.free))
    facts = {"numa_strict": True, "numa_nodes": (0,)}
    return replace(first(world, facts=facts), nodes=(node, replace(node, node=1)))


LINES: Mapping[str, Line] = {
    "a VM grows": Line("never up", grows, OWN_PAST),
    "a VM is partly swapped out": Line("same", swapped_out),
    "KSM merges more": Line("same", merges),
    "the host's other work grows": Line("never up", other_grows),
    "the host has more memory": Line("never down", lambda world, amount: replace(world, free=world.free + amount)),
    "there is more disk swap": Line(
        "never down", lambda world, amount: replace(world, swap_total=world.swap_total + amount)
    ),
    "others swap more out": Line(
        "never up", lambda world, amount: replace(world, swap_of_others=world.swap_of_others + amount)
    ),
    "a pool of huge pages grows": Line("never up", pool_grows),
    "one more VM starts": Line("never up", one_more),
    "one more VM is defined and off": Line(
        "never up",
        lambda world, amount: replace(world, vms=(*world.vms, Vm(amount, 0, 0, state=DomainState.SHUTOFF, new=True))),
    ),
    "a VM arrives by migration": Line(
        "never up", lambda world, amount: one_more(world, amount, state=DomainState.INCOMING)
    ),
    "one more VM on huge pages starts": Line("same", on_huge_pages),
    "one of a VM's nodes turns out to be on ordinary pages": Line(
        "never up", partly, OWN_PAST, base=half_huge, growth=False
    ),
    "a VM ends": Line("never down", gone, OWN_PAST),
    "a VM is paused": Line("never up", lambda world, _: first(world, paused=True), OWN_PAST),
    "a VM becomes guaranteed": Line(
        "never up", lambda world, _: first(world, policy={"class": "guaranteed"}), OWN_PAST
    ),
    "a VM opts out of overcommit": Line(
        "never up", lambda world, _: first(world, policy={"overcommit": "deny"}), OWN_PAST
    ),
    "a VM is excluded": Line("never up", lambda world, _: first(world, facts={"vfio": True}), OWN_PAST),
    "a VM's minimum rises": Line("never up", lambda world, amount: first(world, policy={"min_mb": str(amount // MIB)})),
    "VMs become one anti-affinity group": Line("never up", grouped),
    "a VM is bound to a NUMA node": Line("never up", bound_to_a_node, OWN_PAST),
    "a VM's last peak was higher": Line(
        "never up", lambda world, amount: first(world, before=world.vms[0].before + amount), OWN_PAST, base=fell
    ),
    "the guest says that its kernel cannot report": Line(
        "never up", lambda world, _: first(world, kernel=GuestKernel(0.0, release="4.18.0")), OWN_PAST
    ),
    "reserve": Line("never up", setting("reserve", lambda amount: SETTINGS.reserve + amount)),
    "allow_unbacked": Line("never down", setting("allow_unbacked", lambda amount: amount)),
    "max_ratio": Line("never down", setting("max_ratio", lambda amount: SETTINGS.max_ratio + amount / GIB), earned=()),
    "overhead": Line(
        "never up", setting("overhead", lambda amount: SETTINGS.overhead + amount), growth=False, earned=OWN_PAST
    ),
    "new_vm_decay": Line("never up", setting("new_vm_decay", lambda amount: SETTINGS.new_vm_decay + amount / MIB)),
    "peak_half_life": Line(
        "never up",
        setting("peak_half_life", lambda amount: SETTINGS.peak_half_life + amount / MIB),
        (PredictorName.DECAYING_PEAK,),
    ),
    "quantile_percent": Line(
        "never up", setting("quantile", lambda amount: min(1.0, 0.95 + amount / GIB)), (PredictorName.QUANTILE,)
    ),
    "sigmas": Line("never up", setting("sigmas", lambda amount: 5 + amount / GIB), (PredictorName.N_SIGMA,)),
    "storm_percent": Line("never up", setting("storm_percent", lambda amount: min(100, 10 + amount // GIB))),
    "some VM is not seen as of now": Line("never up", lambda world, _: world, sight=Sight.STALE),
    "the VMs are not seen": Line("0", lambda world, _: world, sight=Sight.BLIND),
    "the host is under pressure": Line("0", lambda world, _: replace(world, psi=50.0)),
}


def table() -> dict[str, str]:
    section = PAGES.read_text().split("## Directions")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (?!what changes|---)(.+?) \| (.+?) \|", section, re.MULTILINE)
    return {name.strip("`"): direction for name, direction in rows}


def test_every_line_of_the_table_is_a_property_and_every_property_a_line() -> None:
    assert table() == {name: line.direction for name, line in LINES.items()}


@pytest.mark.parametrize("name", LINES)
@example(
    # much has come since the first look: that goes on, whoever of these is paused now
    world=World(
        (Vm(13 * GIB, 0, 8 * GIB, 5 * GIB), Vm(13 * GIB, 0, 0, 13 * GIB), Vm(GIB // 4, 0, 0)),
        free=20 * GIB, other=0, swap_total=64 * GIB,
    ),
    pages=1, learnt=None, worst=None,
)  # fmt: skip
@settings(max_examples=50)
@given(
    world=worlds(min_vms=1),
    pages=st.integers(1, 64 * GIB // PAGE),
    learnt=st.none() | tallies(),
    worst=st.none() | st.integers(0, ALL),
)
def test_the_headroom_goes_the_way_of_its_line(
    name: str, world: World, pages: int, learnt: list[dict] | None, worst: int | None
) -> None:
    line = LINES[name]
    growth = table_of(1, learnt * 4) if learnt and line.growth else None
    world = line.base(world)
    changed = line.change(world, pages * PAGE)
    after, chosen = changed if isinstance(changed, tuple) else (changed, SETTINGS)
    for predictor in line.predictors:
        earned = Earned() if worst is None or predictor not in line.earned else earned_by(worst)
        was = capacity_of(world, SETTINGS, predictor, growth=growth, earned=earned).headroom
        now = capacity_of(after, chosen, predictor, sight=line.sight, growth=growth, earned=earned).headroom
        rounded = len(after.vms) + 1  # bytes: each VM's share of a forecast is rounded down by itself
        if line.direction == "never up":
            assert now <= was + rounded
        elif line.direction == "never down":
            assert now >= was - rounded
        elif line.direction == "same":
            assert now == was
        else:
            assert now == 0


@settings(max_examples=200)
@given(
    world=worlds(),
    worst=st.integers(0, ALL),
    predictor=st.sampled_from(EVERY),
    raised=st.floats(SETTINGS.max_ratio, SETTINGS.earned_max_ratio, exclude_max=True),
)
def test_beside_an_earned_ratio_a_higher_max_ratio_takes_nothing(
    world: World, worst: int, predictor: PredictorName, raised: float
) -> None:
    was = capacity_of(world, SETTINGS, predictor, earned=earned_by(worst)).headroom
    now = capacity_of(world, replace(SETTINGS, max_ratio=raised), predictor, earned=earned_by(worst)).headroom
    assert now >= was


@settings(max_examples=200)
@given(world=worlds(), learnt=tallies(), predictor=st.sampled_from(EVERY))
def test_a_growth_table_never_raises_what_is_promised(world: World, learnt: list[dict], predictor) -> None:
    table = table_of(1, learnt * 4)
    without, off = capacity_of(world, predictor=predictor), replace(SETTINGS, growth_floor=False)
    assert capacity_of(world, predictor=predictor, growth=table).headroom <= without.headroom
    assert capacity_of(world, off, predictor, growth=table) == without


@given(world=worlds(min_vms=1), pages=st.integers(1, 64 * GIB // PAGE), room=st.integers(0, 64 * GIB // PAGE))
def test_merging_makes_no_room_on_a_node_that_vms_are_bound_to(world: World, pages: int, room: int) -> None:
    bound = bound_to_a_node(world, room * PAGE)
    found = capacity_of(merges(bound, pages * PAGE))
    assert found.node == capacity_of(bound).node
    assert found.headroom == capacity_of(bound).headroom


sizes = st.integers(-(2**70), 2**70) | st.none()


@given(
    world=worlds(min_vms=1),
    predictor=st.sampled_from(OWN_PAST),
    memory=st.tuples(sizes, sizes, sizes, sizes, sizes),
    kernel=st.builds(
        GuestKernel,
        at=st.floats(),
        release=st.text(max_size=12) | st.sampled_from(["4.18.0", "6.12.1"]),
        os=st.sampled_from(["debian", "mswindows", ""]) | st.text(max_size=12),
        order=st.integers() | st.none(),
        enabled=st.booleans() | st.none(),
    ),
)
def test_a_lying_guest_never_raises_what_its_host_promises(world, predictor, memory, kernel) -> None:
    total, free, available, reported, unreported = memory
    said = builders.guest_memory(total=total, free=free, available=available, reported=reported, unreported=unreported)
    silent = capacity_of(world, predictor=predictor)
    lied_to = capacity_of(first(world, guest=said, kernel=kernel), predictor=predictor)
    assert lied_to.headroom <= silent.headroom
    assert capacity_of(first(world, guest=said), predictor=predictor) == silent


@given(world=worlds(), predictor=st.sampled_from(EVERY))
def test_everything_promised_could_be_backed(world: World, predictor: PredictorName) -> None:
    found = capacity_of(world, replace(SETTINGS, allow_unbacked=3 * GIB), predictor)
    if found.headroom:
        usable = max(0, world.swap_total - world.swap_of_others)
        backed = found.pool - found.reserve - found.other + usable + 3 * GIB
        assert found.assigned + found.headroom <= backed


@given(world=worlds(), predictor=st.sampled_from(EVERY))
def test_planning_the_same_moment_again_gives_the_same_plan(world: World, predictor: PredictorName) -> None:
    chosen = replace(SETTINGS, predictor=predictor)
    state = world.first_look(chosen)
    once = world.look(state, LATER, chosen)
    assert world.look(state, LATER, chosen) == once
    # ...and at the same moment after it, no figure has moved.
    again = world.look(once.state, LATER, chosen)
    # What this look adds to the evidence is known to the next one.
    assert replace(again.plan.capacity, evidence=None) == replace(once.plan.capacity, evidence=None)
    assert again.plan.demands == once.plan.demands
    assert again.state.earned == once.state.earned
    assert (again.state.past, again.state.other) == (once.state.past, once.state.other)
