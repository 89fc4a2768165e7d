"""KSM's pace: fast while idle VMs hold memory that it has not been over, and slow again whatever happens."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.lever import LeverName
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.dedup_pace import Pace, PaceSettings, PaceState, Rounds, next_pace
from memhint.planner.plan import PlannerSettings, plan
from memhint.planner.state import start
from tests.unit import builders

SETTINGS = PaceSettings(least=16 * MIB, rounds=3, settle=1)
BEGUN = PaceState(under_way={"a": Rounds(99)})


class World:
    """One host, cycle by cycle."""

    def __init__(self, settings: PaceSettings = SETTINGS) -> None:
        self.settings = settings
        self.state = PaceState()
        self.scans = 10
        self.unmerged: dict[str, int] = {}
        self.idle: set[str] = set()

    def cycle(self) -> Pace:
        pace, self.state = next_pace(
            self.state, builders.ksm(full_scans=self.scans), self.unmerged, frozenset(self.idle), self.settings
        )
        return pace


def test_a_vm_that_has_become_idle_is_gone_over_once() -> None:
    world = World()
    world.unmerged = {"a": 900 * MIB}
    assert world.cycle() is Pace.SLOW
    world.idle = {"a"}
    assert world.cycle() is Pace.FAST
    world.scans, world.unmerged = 12, {"a": 200 * MIB}
    assert world.cycle() is Pace.FAST
    world.scans, world.unmerged = 13, {"a": 50 * MIB}
    assert world.cycle() is Pace.SLOW
    world.unmerged = {"a": 60 * MIB}
    assert world.cycle() is Pace.SLOW


def test_a_pause_of_a_moment_begins_nothing() -> None:
    world = World(replace(SETTINGS, settle=3))
    world.unmerged = {"a": 900 * MIB}
    for idle in (True, True, False) * 5:
        world.idle = {"a"} if idle else set()
        assert world.cycle() is Pace.SLOW
    world.idle = {"a"}
    assert [world.cycle() for _ in range(3)] == [Pace.SLOW, Pace.SLOW, Pace.FAST]


def test_what_is_new_in_a_vm_that_was_gone_over_begins_it_again() -> None:
    world = World()
    world.idle, world.unmerged = {"a"}, {"a": 100 * MIB}
    world.cycle()
    world.scans += 3
    assert world.cycle() is Pace.SLOW
    world.unmerged = {"a": 40 * MIB}  # it gave memory back,
    assert world.cycle() is Pace.SLOW
    world.unmerged = {"a": 60 * MIB}  # and took other memory
    assert world.cycle() is Pace.FAST


def test_one_that_comes_meanwhile_gets_rounds_of_its_own() -> None:
    world = World()
    world.idle, world.unmerged = {"a", "b"}, {"a": 100 * MIB}
    world.cycle()
    world.scans, world.unmerged = 12, {"a": 50 * MIB, "b": 100 * MIB}
    world.cycle()
    world.scans = 13
    assert world.cycle() is Pace.FAST
    world.scans = 15
    assert world.cycle() is Pace.SLOW


def test_one_that_comes_meanwhile_does_not_prolong_the_rounds_of_others() -> None:
    world = World()
    world.idle, world.unmerged = {"a", "b"}, {"a": 100 * MIB}
    world.cycle()
    world.scans, world.unmerged = 12, {"a": 50 * MIB, "b": 100 * MIB}
    world.cycle()
    world.scans, world.unmerged = 13, {"a": 50 * MIB, "b": 100 * MIB}
    world.cycle()
    assert dict(world.state.gone_over) == {"a": 50 * MIB}
    assert set(world.state.under_way) == {"b"}


def test_one_that_becomes_busy_meanwhile_is_gone_over_anew_once_it_is_idle_for_as_long() -> None:
    world = World()
    world.idle, world.unmerged = {"a"}, {"a": 100 * MIB}
    world.cycle()
    world.idle = set()
    assert world.cycle() is Pace.FAST  # it keeps its place
    world.scans += 3
    assert world.cycle() is Pace.SLOW  # after two looks more than the first
    world.idle = {"a"}
    assert [world.cycle() for _ in range(3)] == [Pace.SLOW, Pace.SLOW, Pace.FAST]
    world.scans += 3
    assert world.cycle() is Pace.SLOW  # undisturbed this time
    assert [world.cycle() for _ in range(20)] == [Pace.SLOW] * 20


def test_one_that_is_disturbed_again_and_again_waits_twice_as_long_each_time() -> None:
    world = World()
    world.unmerged = {"a": 100 * MIB}
    waited = []
    for _ in range(4):
        world.idle, looks = {"a"}, 1
        while world.cycle() is Pace.SLOW:
            looks += 1
        waited.append(looks)
        world.idle = set()
        world.cycle()
        world.scans += 3
        assert world.cycle() is Pace.SLOW
    assert waited == [1, 3, 5, 9]


def _live(world: World, looks: int, scan: int, busy: dict[str, tuple[int, int]]) -> list[Pace]:
    """Looks at a host on which a scan takes ``scan`` looks at the fast pace and none ends at the slow one."""
    paces, progress = [], 0
    for look in range(looks):
        world.idle = {name for name, (work, rest) in busy.items() if look % (work + rest) >= work}
        paces.append(world.cycle())
        progress += paces[-1] is Pace.FAST
        world.scans = 10 + progress // scan
    return paces


@given(st.data())
def test_vms_that_work_now_and_then_and_hold_nothing_new_leave_it_slow(data: st.DataObject) -> None:
    """However often, and however many of them: each has its rounds and, a few looks longer, once more."""
    scan = data.draw(st.integers(2, 12), "looks that a scan takes")
    rest = st.integers(1, SETTINGS.rounds * scan - 1)
    busy = data.draw(st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 10), rest), min_size=1))
    busy["still"] = (0, 1)
    world = World()
    world.unmerged = dict.fromkeys(busy, 500 * MIB)
    paces = _live(world, 1000, scan, busy)
    assert Pace.FAST in paces
    assert paces.count(Pace.FAST) <= 2 * len(busy) * (SETTINGS.rounds * scan + 1)
    assert Pace.FAST not in paces[500:]
    world.unmerged["still"] += SETTINGS.least
    assert world.cycle() is Pace.FAST


def test_a_job_every_two_minutes_does_not_keep_it_fast() -> None:
    """60 GiB of members that were gone over, 102 s for one scan, and one VM that works 20 s of 120; a look is 2 s."""
    world = World()
    world.unmerged = {"others": 60 * GIB, "job": 500 * MIB}
    paces = _live(world, 6 * 1800, 51, {"others": (0, 1), "job": (10, 50)})
    assert 0 < paces.count(Pace.FAST) <= 2 * 3 * 51 + 1


def test_nothing_to_merge_and_no_ksm_are_slow() -> None:
    assert next_pace(BEGUN, None, {"a": GIB}, frozenset("a"), SETTINGS) == (Pace.SLOW, PaceState())
    assert next_pace(BEGUN, builders.ksm(), {}, frozenset(), SETTINGS) == (Pace.SLOW, PaceState())


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, GIB)), min_size=1, max_size=8))
def test_it_ends_whatever_came_before(looks: list[dict[str, int]]) -> None:
    world = World()
    world.idle = set("abc")
    for unmerged in looks:
        world.unmerged = unmerged
        world.cycle()
        world.scans += 1
    world.scans += SETTINGS.rounds
    world.cycle()
    assert world.cycle() is Pace.SLOW


def test_the_plan_carries_the_pace_and_remembers() -> None:
    vm = builders.domain_observation(
        uuid="a",
        facts=builders.facts(memory=GIB, project="p1"),
        process=builders.process(rss=600 * MIB, ksm_merging=0, ksm_zero=0),
    )
    policies = {"a": effective({Origin.OPERATOR: {"dedup": "on"}})}
    settings = PlannerSettings()
    state, paces = start(settings), []
    for number, (scans, merging) in enumerate(((5, 0), (5, 0), (5, 0), (5, 0), (6, 0), (8, 500 * MIB), (9, 500 * MIB))):
        host = builders.host_observation(ksm=builders.ksm(full_scans=scans))
        seen = replace(vm, process=replace(vm.process, ksm_merging=merging))
        planned = plan(host, [seen], policies, state, 100.0 + number, settings)
        state = planned.state
        paces.append(planned.of_host[LeverName.DEDUP].pace)
    # New, and nobody knows whether it is idle; then idle, for three looks, and until KSM has been over it.
    assert paces == [Pace.SLOW] * 3 + [Pace.FAST] * 2 + [Pace.SLOW] * 2
