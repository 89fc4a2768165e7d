"""Whose merged pages break too fast: it rests, one at a time, and who was blamed for nothing comes back."""

from __future__ import annotations

from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from memhint.planner.dedup_breaks import BreakSettings, BreakState, merging_of, next_breaks, rest_of
from tests.unit import builders

SETTINGS = BreakSettings(least_life=60.0, least_rate=100.0, window=60.0, rest=600.0)


class World:
    """A host of VMs by pid, minute by minute."""

    def __init__(self, **merged: int) -> None:
        self.merged = dict(merged)
        self.zero = dict.fromkeys(merged, 0)
        self.faults = dict.fromkeys(merged, 1000)
        self.cow = 0
        self.now = 0.0
        self.state = BreakState()
        self.counts = True
        self.pass_by(0)

    def vm(self, name: str):
        pid = 10 + sorted(self.merged).index(name)
        process = builders.process(
            pid=pid,
            rss=1 * GIB,
            ksm_merging=self.merged[name],
            ksm_zero=self.zero[name],
            faults=self.faults[name],
        )
        return builders.domain_observation(uuid=name, name=name, process=process)

    def pass_by(self, seconds: float = 60.0, broken: int = 0, **faults: int) -> None:
        self.now += seconds
        self.cow += broken
        for name, count in faults.items():
            self.faults[name] += count
        ksm = builders.ksm(cow_breaks=self.cow if self.counts else None)
        host = builders.host_observation(ksm=ksm)
        self.state = next_breaks(self.state, host, [self.vm(name) for name in self.merged], self.now, SETTINGS)

    def rests(self) -> set[str]:
        return {name for name in self.merged if rest_of(self.state, self.vm(name), self.now) is not None}


def test_a_vm_that_breaks_its_pages_faster_than_they_are_worth_rests() -> None:
    world = World(a=40 * MIB, b=40 * MIB)
    world.pass_by(broken=60_000, a=60_000, b=10)  # 10,240 pages, 1,000 of them in a second
    assert world.rests() == {"a"}
    why = rest_of(world.state, world.vm("a"), world.now)
    assert why is not None
    assert (why.answer, why.reason) == (Answer.UNCHANGED, Reason.PAGES_BREAK)
    assert "after 10 s" in why.detail
    told = merging_of(world.state, world.vm("a"), world.now)
    assert told is not None
    assert told.rests == 600.0
    assert told.breaks == 59_990  # the rest is b's, by its share of the faults


def test_pages_that_stay_merged_for_long_are_worth_their_breaks() -> None:
    world = World(a=4 * GIB, b=40 * MIB)
    world.pass_by(broken=60_000, a=60_000)  # a million pages: each is merged for a quarter of an hour
    assert world.rests() == set()


def test_a_few_breaks_are_not_worth_a_look() -> None:
    world = World(a=1 * MIB)
    world.pass_by(broken=3_000, a=3_000)
    assert world.rests() == set()
    told = merging_of(world.state, world.vm("a"), world.now)
    assert told is not None
    assert told.breaks == 3000


def test_what_is_merged_is_told_with_its_partition_and_how_much_of_it_is_empty() -> None:
    process = builders.process(ksm_merging=40 * MIB, ksm_zero=8 * MIB, ksm_partition=7)
    told = merging_of(BreakState(), builders.domain_observation(process=process), 0.0)
    assert told is not None
    assert (told.merged, told.zero, told.partition) == (48 * MIB, 8 * MIB, 7)


def test_faults_alone_break_nothing() -> None:
    world = World(a=40 * MIB)
    world.pass_by(broken=0, a=10_000_000)
    assert world.rests() == set()


def test_breaks_without_the_vms_own_faults_are_not_its() -> None:
    world = World(a=40 * MIB)
    world.pass_by(broken=1_000_000, a=5)
    assert world.rests() == set()


def test_a_vm_without_merged_pages_breaks_none() -> None:
    world = World(a=0, b=40 * MIB)
    world.pass_by(broken=60_000, a=10_000_000, b=60_000)
    assert world.rests() == {"b"}


def test_what_leaves_the_zero_page_counts_as_long_as_there_are_faults_for_it() -> None:
    world = World(a=0)
    world.zero["a"] = 400 * MIB
    world.pass_by(0.0)
    world.pass_by()
    world.zero["a"] = 80 * MIB
    world.pass_by(a=81_920)
    assert world.rests() == {"a"}
    given_back = World(a=0)
    given_back.zero["a"] = 400 * MIB
    given_back.pass_by()
    given_back.zero["a"] = 80 * MIB
    given_back.pass_by(a=3)
    assert given_back.rests() == set()


def test_who_was_blamed_for_nothing_comes_back_and_is_left_in_peace() -> None:
    """b breaks its pages; a has many faults for another reason, and its pages seem to live for a shorter time."""
    world = World(a=10 * MIB, b=40 * MIB)
    world.pass_by(broken=30_000, a=40_000, b=30_000)
    assert world.rests() == {"a"}
    world.merged["a"] = 0
    world.pass_by(broken=32_560, a=40_000, b=30_000)  # to separate a's pages counts, too
    assert world.rests() == {"a"}
    world.pass_by(broken=30_000, a=40_000, b=30_000)
    assert world.rests() == set()
    world.merged["a"] = 10 * MIB
    world.pass_by(broken=30_000, a=40_000, b=30_000)
    assert world.rests() == {"b"}


def test_who_was_rightly_blamed_rests_to_the_end_and_longer_the_next_time() -> None:
    world = World(a=40 * MIB)
    world.pass_by(broken=60_000, a=60_000)
    world.merged["a"] = 0
    for _ in range(9):
        world.pass_by(broken=0, a=60_000)
        assert world.rests() == {"a"}
    world.pass_by(broken=0, a=60_000)
    assert world.rests() == set()
    world.merged["a"] = 40 * MIB
    world.pass_by(broken=60_000, a=60_000)
    told = merging_of(world.state, world.vm("a"), world.now)
    assert told is not None
    assert told.rests == 1200.0


def test_one_at_a_time() -> None:
    world = World(a=40 * MIB, b=40 * MIB)
    world.pass_by(broken=200_000, a=100_000, b=90_000)
    assert world.rests() == {"a"}


def test_a_kernel_that_does_not_count_blames_nobody() -> None:
    world = World(a=40 * MIB)
    world.counts = False
    for _ in range(3):
        world.pass_by(broken=60_000, a=60_000)
    assert world.rests() == set()


def test_counters_that_begin_again_are_a_new_window() -> None:
    world = World(a=40 * MIB)
    world.cow = 1_000_000
    world.pass_by()
    world.cow = 0
    world.pass_by(broken=10, a=60_000)
    assert world.rests() == set()


def test_a_process_that_was_started_again_is_another() -> None:
    world = World(a=40 * MIB)
    world.pass_by(broken=60_000, a=60_000)
    del world.merged["a"]
    world.merged["b"], world.zero["b"], world.faults["b"] = 0, 0, 0
    world.merged["a"], world.zero["a"], world.faults["a"] = 0, 0, 0
    state = world.state
    world.state = next_breaks(
        state, builders.host_observation(ksm=builders.ksm(cow_breaks=world.cow)), [], 61.0, SETTINGS
    )
    assert world.state.resting == {}
