"""Who gets huge pages anew: whoever had pieces taken, once he works and nothing takes any more."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.domain import DomainState
from memhint.objects.policy import Origin, effective
from memhint.objects.relief import Relief
from memhint.objects.tuning import Tuning
from memhint.planner.thp import CollapseSettings, collapses, next_split, taken_from
from tests.unit import builders

SETTINGS = CollapseSettings(most=64, window=100.0)
VM = builders.domain_observation()
assert VM.process is not None
NAME = VM.process.instance
NOBODY: frozenset[str] = frozenset()


def wished(word: str, split: dict[str, float], taken=(), idle=NOBODY, calm: bool = True, vm=VM) -> dict[str, int]:
    policies = {vm.uuid: effective({Origin.OPERATOR: {"thp": word}})}
    return collapses([vm], policies, split, taken, idle, SETTINGS, calm=calm)


def test_whatever_takes_less_than_a_huge_page_splits_it() -> None:
    relief = Relief(
        tuning={"fine": Tuning(order=4), "coarse": Tuning(order=9), "soon": Tuning(delay_ms=9)},
        recycler={"recycled": 1},
        balloon={"small": 1},
        swap_out={"cold": 1},
        cache={"cache": 1},
    )
    assert taken_from(relief, {"merged"}) == {"fine", "recycled", "small", "cold", "merged"}


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
