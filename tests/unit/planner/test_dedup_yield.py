"""In which order VMs begin to merge."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.estimate import VmEstimate
from memhint.objects.policy import Mode
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from memhint.planner.dedup_yield import TurnInput, TurnState, take_turns
from tests.unit import builders


def vm(name: str, merging: int = 0):
    process = builders.process(pid=ord(name[0]), rss=1 * GIB, ksm_merging=merging, ksm_zero=0)
    return builders.domain_observation(uuid=name, name=name, process=process)


def estimates(**percent: float) -> dict[str, VmEstimate]:
    return {
        name: VmEstimate(name, 1.0, 1000 * MIB, zero=0, within=round(part * 10 * MIB), across=0, changed=0)
        for name, part in percent.items()
    }


class World:
    def __init__(self, names: str, auto: str = "", waiting: str = "", **percent: float) -> None:
        self.vms = {name: vm(name) for name in names}
        self.given = TurnInput(
            estimates(**percent),
            {name: Mode.AUTO if name in auto else Mode.ON for name in names},
            frozenset(waiting),
        )
        self.state = TurnState()
        self.scans = 100

    def look(self) -> set[str]:
        ksm = builders.ksm(full_scans=self.scans)
        self.verdicts, self.state = take_turns(list(self.vms.values()), self.given, ksm, self.state)
        return self.vms.keys() - self.verdicts.keys()


def test_those_of_which_most_is_saved_come_first_and_the_next_when_ksm_has_been_over_them() -> None:
    world = World("abcd", a=40, b=30, c=10, d=2)
    assert world.look() == {"a", "b"}
    assert (world.verdicts["c"].answer, world.verdicts["c"].reason) == (Answer.PENDING, Reason.TURN)
    world.scans += 2
    assert world.look() == {"a", "b"}
    world.scans += 1
    assert world.look() == {"a", "b", "c"}
    world.scans += 3
    assert world.look() == {"a", "b", "c", "d"}


def test_vms_that_are_alike_enter_together() -> None:
    assert World("abc", a=20, b=21, c=19).look() == {"a", "b", "c"}


def test_nobody_begins_alone() -> None:
    assert World("abc", a=90, b=10, c=8).look() == {"a", "b"}


def test_without_an_estimate_all_begin_at_once() -> None:
    assert World("abc").look() == {"a", "b", "c"}


def test_a_vm_of_which_nothing_is_known_comes_with_the_first() -> None:
    assert World("abc", a=40, c=10).look() == {"a", "b"}


def test_a_vm_that_is_being_looked_at_is_waited_for() -> None:
    world = World("abc", waiting="b", a=40, c=30)
    assert world.look() == {"a", "c"}
    assert world.verdicts["b"].reason is Reason.NO_ESTIMATE


def test_nobody_leaves_for_anothers_turn() -> None:
    world = World("abc", a=40, b=30, c=1)
    world.vms["c"] = vm("c", merging=10 * MIB)
    assert world.look() == {"a", "b", "c"}
    world.given = TurnInput(estimates(a=1, b=1, c=90), world.given.auto)
    assert world.look() == {"a", "b", "c"}


def test_a_newcomer_of_which_as_much_is_saved_need_not_wait() -> None:
    world = World("ab", a=40, b=30)
    world.look()
    world.vms["n"] = vm("n")
    world.given = TurnInput(estimates(a=40, b=30, n=25), world.given.auto)
    assert world.look() == {"a", "b", "n"}


def test_on_auto_a_vm_that_costs_more_than_it_saves_stays_out() -> None:
    world = World("abc", auto="c", a=40, b=30, c=1)
    world.look()
    assert world.verdicts["c"].reason is Reason.DOES_NOT_PAY
    world.scans += 3
    world.look()
    assert world.verdicts["c"].reason is Reason.DOES_NOT_PAY


def test_a_counter_that_begins_again_holds_nobody_up_for_ever() -> None:
    world = World("abc", a=40, b=30, c=5)
    world.scans = 1_000_000
    world.look()
    world.scans = 0
    world.look()
    world.scans = 3
    assert world.look() == {"a", "b", "c"}


@given(parts=st.lists(st.integers(0, 100), min_size=1, max_size=12), scans=st.integers(0, 5))
def test_everybody_who_asks_by_on_gets_a_turn_and_keeps_it(parts: list[int], scans: int) -> None:
    names = "abcdefghijkl"[: len(parts)]
    world = World(names, **{name: float(part) for name, part in zip(names, parts, strict=True)})
    world.scans = scans
    before: set[str] = set()
    for _ in range(len(parts) + 1):
        now = world.look()
        assert before <= now
        before = now
        world.scans += 3
    assert before == set(names)
