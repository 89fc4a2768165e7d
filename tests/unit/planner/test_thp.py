"""Who gets huge pages again: VMs that had pieces taken, once they work and nothing more is taken."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.domain import DomainState
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName
from memhint.objects.policy import Origin, effective
from memhint.objects.relief import Relief
from memhint.objects.tuning import Tuning
from memhint.objects.units import MIB
from memhint.planner.dedup import DedupPlan
from memhint.planner.pieces import taken_from, taken_of_use
from memhint.planner.plan import plan
from memhint.planner.settings import LadderSettings, PlannerSettings
from memhint.planner.state import start
from memhint.planner.thp import CollapseSettings, collapses, cpu_of, next_split, working
from tests.unit import builders

SETTINGS = CollapseSettings(most=64, window=100.0)
VM = builders.domain_observation()
assert VM.process is not None
NAME = VM.process.instance
NOBODY: frozenset[str] = frozenset()


def wished(word: str, split: dict[str, float], taken=(), idle=NOBODY, calm: bool = True, vm=VM) -> dict[str, int]:
    policies = {vm.uuid: effective({Origin.OPERATOR: {"thp": word}})}
    return collapses([vm], policies, split, taken, idle, SETTINGS, calm=calm)


def test_who_was_started_with_small_pages_only_is_asked_for_none() -> None:
    small = replace(VM, process=replace(VM.process, small_pages=True))
    for word in ("on", "auto"):
        assert wished(word, {NAME: 0.0}) == {VM.uuid: 64}
        assert wished(word, {NAME: 0.0}, vm=small) == {}


def test_whatever_takes_less_than_a_huge_page_splits_it() -> None:
    relief = Relief(
        tuning={"fine": Tuning(order=4), "coarse": Tuning(order=9), "soon": Tuning(delay_ms=9)},
        recycler={"recycled": 1},
        balloon={"small": 1},
        swap_out={"cold": 1},
        cache={"cache": 1},
    )
    plans = {LeverName.DEDUP: DedupPlan(frozenset({"merged"}), None, {})}
    assert taken_from(relief, plans) == {"fine", "recycled", "small", "cold", "merged"}
    assert taken_of_use(relief, plans) == {"small", "cold", "merged"}


def test_the_time_begins_when_the_vm_wakes_and_ends_with_the_window() -> None:
    split: dict[str, float] = {}
    seen = []
    for taken, idle in (
        ((VM.uuid,), {NAME}),
        ((), {NAME}),
        ((), {NAME}),
        ((), ()),
        ((), ()),
        ((), ()),
    ):
        split = next_split(split, [VM], taken, frozenset(idle), 40.0, SETTINGS)
        seen.append(split.get(NAME))
    assert seen == [0.0, 0.0, 0.0, 40.0, 80.0, None]


def test_a_vm_that_is_gone_or_was_never_split_is_not_remembered() -> None:
    assert next_split({NAME: 1.0}, [], (), NOBODY, 1.0, SETTINGS) == {}
    assert next_split({}, [VM], (), frozenset({NAME}), 1.0, SETTINGS) == {}
    assert next_split({NAME: 1.0}, [replace(VM, process=None)], (), NOBODY, 1.0, SETTINGS) == {}


def test_auto_is_for_whom_was_split_and_on_for_everybody() -> None:
    assert wished("auto", {NAME: 5.0}) == {VM.uuid: 64}
    assert wished("auto", {}) == {}
    assert wished("on", {}) == {VM.uuid: 64}
    assert wished("off", {NAME: 5.0}) == {}


def test_what_seems_idle_is_left_alone_unless_somebody_wished_otherwise() -> None:
    assert wished("auto", {NAME: 5.0}, idle=frozenset({NAME})) == {}
    assert wished("on", {NAME: 5.0}, idle=frozenset({NAME})) == {VM.uuid: 64}


def test_nothing_while_pressed_or_while_pieces_are_taken() -> None:
    for word in ("auto", "on"):
        assert wished(word, {NAME: 5.0}, calm=False) == {}
        assert wished(word, {NAME: 5.0}, taken={VM.uuid}) == {}
        assert wished(word, {NAME: 5.0}, vm=replace(VM, state=DomainState.PAUSED)) == {}


def runs(cpu: float | None):
    assert VM.process is not None
    return replace(VM, process=replace(VM.process, cpu=cpu), active=None)


def works(before: float | None, now: float | None, elapsed: float | None = 10.0) -> bool:
    known = cpu_of([runs(before)])
    return NAME in working([runs(now)], known, elapsed, builders.NOW, SETTINGS)


def test_a_vm_that_takes_processor_time_works_though_it_does_not_grow() -> None:
    assert works(100.0, 102.0)  # 20 % of a core
    assert not works(100.0, 101.9)
    assert not works(100.0, 100.0)


def test_processor_time_that_is_not_known_shows_nothing() -> None:
    assert not works(None, 50.0)
    assert not works(50.0, None)
    assert not works(0.0, 50.0, elapsed=None)
    assert not works(0.0, 50.0, elapsed=0.0)


def active(touched: int, age: float = 0.0):
    assert VM.active is not None
    seen = VM.active
    idle = replace(seen.idle[0], bytes=seen.resident - touched, at=builders.NOW - age)
    return replace(runs(None), active=replace(seen, idle=(idle, *seen.idle[1:])))


def test_a_vm_that_touches_much_of_its_memory_works_while_the_reading_is_new() -> None:
    def found(vm) -> bool:
        return bool(working([vm], {}, 10.0, builders.NOW, SETTINGS))

    assert found(active(512 * MIB))  # a quarter of 2 GiB
    assert not found(active(500 * MIB))
    assert found(active(2048 * MIB, age=59.0))
    assert not found(active(2048 * MIB, age=61.0))
    nothing = active(0)
    assert nothing.active is not None
    assert not found(replace(nothing, active=replace(nothing.active, idle=())))


def test_a_vm_that_wakes_within_the_memory_it_has_gets_its_huge_pages_again() -> None:
    """Idle by its growth all the time; only the processor time tells."""
    settings, host, vm = PlannerSettings(), builders.host_observation(), runs(0.0)
    policies = {vm.uuid: effective({Origin.OPERATOR: {"thp": "auto"}})}
    state = replace(start(settings), split={NAME: 0.0})
    made = []
    for cycle, cpu in enumerate((0.0, 0.1, 0.2, 8.0, 16.0, 16.1)):
        planned = plan(host, [runs(cpu)], policies, state, 10.0 * cycle, settings)
        made.append(planned.plan.relief.thp.get(vm.uuid))
        state = planned.state
        if cycle:
            assert NAME in state.idle
    most = settings.of(CollapseSettings).most
    assert made == [most, None, None, most, most, None]


def test_a_vm_that_works_gets_huge_pages_though_its_free_pages_go_on_being_taken() -> None:
    """As a dense idle VM that wakes on a host where finer reporting always holds."""
    always = LadderSettings(always=frozenset({Rung.ORDER}), split_least=0)
    settings, host, vm = PlannerSettings(ladder=always), builders.host_observation(), runs(0.0)
    policies = {vm.uuid: effective({Origin.OPERATOR: {"thp": "auto", "guest_actions": "allow"}})}
    state, made, finer = start(settings), [], []
    for cycle, cpu in enumerate((0.0, 0.0, 0.1, 8.0, 16.0, 16.1)):
        planned = plan(host, [replace(runs(cpu), guest_kernel=None)], policies, state, 10.0 * cycle, settings)
        made.append(vm.uuid in planned.plan.relief.thp)
        finer.append(taken_from(planned.plan.relief, planned.of_host) == {vm.uuid})
        state = planned.state
    assert finer[1:] == [True] * 5
    assert made == [False, False, False, True, True, False]
