"""Who is watched, by which source, within which budget, and that nothing is left watched."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest

from memhint.agent.active_reads import AGAIN, BETTER_AGAIN, ActiveReads, chosen
from memhint.kernel.errors import InterfaceInUse, InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.objects.active import ActiveMemory, ActiveSource, Idle
from memhint.objects.gap import GapReason
from memhint.objects.heat import HeatMap
from memhint.store.errors import StoreError
from tests.unit import builders

SEEN = ActiveMemory(builders.NOW, ActiveSource.DAMON, 1000, (Idle(10, 400, builders.NOW),), 0.1, 0)


class FakeWatch:
    """Reads at each step, or fails as it is told."""

    name = 0

    def __init__(self, fails: KernelInterfaceError | StoreError | None = None, cost: float = 0.0) -> None:
        self.fails = fails
        self.cost = cost
        self.cpu = 0.0
        self.newest: ActiveMemory | None = None
        self.ranges = self.with_heat = False
        self.range_reads = 0
        self.heat: HeatMap | None = None
        self.steps = 0
        self.closed = 0

    def step(self, now: float) -> float:
        self.cpu += self.cost
        if self.fails is not None:
            raise self.fails
        self.steps += 1
        self.newest = SEEN
        if self.with_heat:
            self.range_reads += 1
            self.heat = HeatMap(now, ())
        return now + 60.0

    def close(self) -> None:
        self.closed += 1


class Sources:
    """Sources whose watches are kept, by source."""

    def __init__(self, **fails: KernelInterfaceError | StoreError | None) -> None:
        self.fails = {ActiveSource(name): error for name, error in fails.items()}
        self.made: list[tuple[ActiveSource, int, FakeWatch]] = []
        self.cost = 0.0

    def all(self) -> dict:
        def opener(source: ActiveSource):
            def open_(pid: int) -> FakeWatch:
                watch = FakeWatch(self.fails[source], self.cost)
                self.made.append((source, pid, watch))
                return watch

            return open_

        return {source: opener(source) for source in self.fails}


def reader(sources: Sources, percent: float = 100.0) -> ActiveReads:
    found = ActiveReads(sources.all(), percent, clock=lambda: 0.0)
    found._thread = object()  # as if it had begun: the test takes each step itself
    return found


def run(reads: ActiveReads, now: float) -> float:
    """Steps until it wants to rest."""
    for _ in range(100):
        rest = reads.read_next(now)
        if rest:
            return rest
    raise AssertionError("it never rests")


def test_ranges_are_found_out_of_those_alone_that_are_asked_for_last() -> None:
    reads = reader(Sources(damon=None))
    reads.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    assert reads.heat(["a", "gone"]) == {}
    run(reads, 0.0)
    run(reads, 61.0)
    assert reads.heat(["a", "gone"]) == {"a": HeatMap(61.0, ())}
    assert reads.heat(["b"]) == {}
    run(reads, 122.0)
    assert reads.heat(["a", "b"]) == {"b": HeatMap(122.0, ())}


def test_ranges_take_a_quarter_of_the_time_at_most_and_every_vm_has_its_turn() -> None:
    now, asked = 0.0, []

    class Slow(FakeWatch):
        """As DAMON's: it waits for the end of a window, and of two more for ranges."""

        def step(self, at: float) -> float:
            nonlocal now
            due = super().step(at)
            asked.append((self.name, self.with_heat, 20.0 if self.with_heat else 0.0))
            now += 5.0 + asked[-1][2]
            return due

    def opened(pid: int) -> FakeWatch:
        watch = Slow()
        watch.name = pid
        return watch

    reads = ActiveReads({ActiveSource.DAMON: opened}, 100.0, clock=lambda: now)
    reads._thread = object()  # as if it had begun: the test takes each step itself
    reads.want({f"vm-{pid}": builders.process(pid=pid) for pid in range(5)})
    reads.heat([f"vm-{pid}" for pid in range(4)])
    while now < 3600.0:
        now += reads.read_next(now)
    spent = {pid: sum(took for name, _, took in asked if name == pid) for pid in range(5)}
    assert 0.15 * now <= sum(spent.values()) <= 0.25 * now
    assert spent[4] == 0.0
    assert max(spent[pid] for pid in range(4)) - min(spent[pid] for pid in range(4)) <= 20.0


def test_a_vm_of_which_no_ranges_can_be_told_keeps_no_other_from_its_turns() -> None:
    now = 0.0
    taken = InterfaceInUse("/damon", "of somebody else")
    watches: dict[int, FakeWatch] = {}

    class Bits(FakeWatch):
        """As that by accessed bits."""

        def step(self, at: float) -> float:
            self.with_heat = False
            return super().step(at)

    def damon(pid: int) -> FakeWatch:
        watches[pid] = FakeWatch(taken if pid == 1 else None)
        return watches[pid]

    sources = {ActiveSource.DAMON: damon, ActiveSource.REFERENCED: lambda pid: Bits()}
    reads = ActiveReads(sources, 100.0, clock=lambda: now)
    reads._thread = object()  # as if it had begun: the test takes each step itself
    reads.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    reads.heat(["a", "b"])
    while now < 3600.0:
        now += reads.read_next(now)
    assert watches[2].range_reads > 50


def test_a_watch_with_a_defect_keeps_no_other_from_being_read() -> None:
    sources = Sources(damon=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    run(reads, 0.0)
    spoiled, good = (watch for _, _, watch in sources.made)
    spoiled.fails = ValueError("a defect")  # type: ignore[assignment]
    for now in (61.0, 122.0, 183.0):
        with contextlib.suppress(ValueError):
            reads.read_next(now)
        run(reads, now)
    assert good.steps == 4


def test_who_watches_is_told_whose_ranges_are_wanted_and_at_once() -> None:
    sources = Sources(damon=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    reads.heat(["b"])
    run(reads, 0.0)
    watches = {pid: watch for _, pid, watch in sources.made}
    assert (watches[1].ranges, watches[2].ranges) == (False, True)
    reads.heat(["a"])
    assert watches[1].steps == 1
    run(reads, 1.0)
    assert watches[1].steps == 2, "before it was due"
    assert (watches[1].ranges, watches[1].range_reads) == (True, 1)
    run(reads, 61.0)
    assert watches[2].ranges is False


def test_watches_begin_apart() -> None:
    """Windows that end at the same moment could not be asked about one after the other."""
    now = 0.0
    sources = Sources(damon=None)
    reads = ActiveReads(sources.all(), 100.0, apart=0.7, clock=lambda: now)
    reads.want({name: builders.process(pid=ord(name)) for name in "abc"})
    began = []
    while len(sources.made) < 3:
        rest = reads.read_next(now)
        began += [now] * (len(sources.made) - len(began))
        now += rest
    assert all(0.7 <= later - earlier <= 1.0 for earlier, later in pairwise(began))
    assert reads.read_next(now) > 0.0, "nothing else is due"


def test_every_vm_is_watched_and_what_was_read_is_kept() -> None:
    sources = Sources(damon=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    assert reads.newest("a")[1].reason is GapReason.PENDING
    run(reads, 0.0)
    assert reads.newest("a") == (SEEN, None)
    assert sorted(pid for _, pid, _ in sources.made) == [1, 2]
    assert run(reads, 30.0) == 1.0  # nothing is due
    run(reads, 60.0)
    assert [watch.steps for _, _, watch in sources.made] == [2, 2]


def test_the_next_source_is_tried_where_one_is_somebody_else_s_and_both_reasons_are_told() -> None:
    taken, missing = InterfaceInUse("/damon", "of somebody else"), InterfaceMissing("/clear_refs", "KVM")
    sources = Sources(damon=taken, referenced=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1)})
    run(reads, 0.0)
    assert reads.newest("a") == (SEEN, None)

    neither = Sources(damon=taken, referenced=missing)
    reads = reader(neither)
    reads.want({"a": builders.process(pid=1)})
    run(reads, 0.0)
    seen, gap = reads.newest("a")
    assert seen is None
    assert gap.reason is taken.gap("active").reason
    assert "KVM" in gap.detail
    run(reads, AGAIN - 1)
    assert len(neither.made) == 2
    run(reads, AGAIN)
    assert len(neither.made) == 4  # tried again


def test_a_source_that_was_somebody_else_s_is_taken_once_it_is_free() -> None:
    taken = InterfaceInUse("/damon", "of somebody else")
    sources = Sources(damon=taken, referenced=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1)})
    run(reads, 0.0)
    run(reads, BETTER_AGAIN)
    assert [source for source, _, _ in sources.made] == [
        ActiveSource.DAMON,
        ActiveSource.REFERENCED,
        ActiveSource.DAMON,
    ]
    by_bits = sources.made[1][2]
    assert (by_bits.steps, by_bits.closed) == (2, 0)

    sources.fails[ActiveSource.DAMON] = None
    run(reads, BETTER_AGAIN + 60.0)
    assert len(sources.made) == 3  # not all the time
    run(reads, 2 * BETTER_AGAIN)
    source, _, by_damon = sources.made[3]
    assert (source, by_damon.steps, by_bits.closed) == (ActiveSource.DAMON, 1, 1)
    assert reads.newest("a") == (SEEN, None)
    run(reads, 4 * BETTER_AGAIN)
    assert len(sources.made) == 4  # nothing is better


def test_a_store_that_is_away_ends_no_watch_that_works() -> None:
    sources = Sources(damon=InterfaceInUse("/damon", "of somebody else"), referenced=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1)})
    run(reads, 0.0)
    by_bits = sources.made[1][2]
    sources.fails[ActiveSource.DAMON] = StoreError(
        "the store is away"
    )  # the mark of a kdamond is read and written there
    run(reads, BETTER_AGAIN)
    assert len(sources.made) == 3
    assert by_bits.closed == 0
    assert reads.newest("a") == (SEEN, None)
    run(reads, BETTER_AGAIN + 60.0)
    assert by_bits.steps == 3


def test_a_vm_that_ended_or_has_another_process_is_watched_no_more() -> None:
    sources = Sources(damon=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    run(reads, 0.0)
    reads.want({"a": builders.process(pid=7, start_ticks=99)})
    run(reads, 1.0)
    assert [(pid, watch.closed) for _, pid, watch in sources.made] == [(1, 1), (2, 1), (7, 0)]
    assert reads.newest("b") == (None, None)


def test_a_vm_that_does_not_run_is_not_watched_and_begins_anew_when_it_does() -> None:
    """One that is paused, or arrives for an hour, touches nothing: all of its memory would look idle."""
    sources = Sources(damon=None)
    reads, process = reader(sources), {"a": builders.process(pid=1)}
    reads.want(process, resting=["a"])
    assert run(reads, 0.0) > 0
    assert sources.made == []
    found, gap = reads.newest("a")
    assert found is None
    assert gap is not None
    assert "does not run" in gap.detail
    reads.want(process)
    run(reads, 1.0)
    assert reads.newest("a") == (SEEN, None)
    reads.want(process, resting=["a"])
    assert run(reads, 2.0) > 0
    assert (reads.newest("a")[0], sources.made[0][2].closed) == (None, 1)
    reads.want(process)
    run(reads, 3.0)
    assert len(sources.made) == 2


def test_a_vm_with_more_memory_than_before_is_watched_anew() -> None:
    sources = Sources(damon=None)
    reads, process = reader(sources), {"a": builders.process(pid=1)}
    for size, made in ((None, 1), (4, 1), (None, 1), (4, 1), (8, 2)):
        reads.want(process, {} if size is None else {"a": size})
        run(reads, 0.0)
        assert len(sources.made) == made, size
    assert [watch.closed for _, _, watch in sources.made] == [1, 0]


@pytest.mark.parametrize("better", [False, True])
def test_a_watch_that_begins_as_its_vm_leaves_is_ended(better: bool) -> None:
    sources = Sources(damon=InterfaceInUse("kdamonds", "somebody's") if better else None, referenced=None)
    reads, now = reader(sources), 0.0
    reads.want({"a": builders.process(pid=1)})
    if better:
        run(reads, 0.0)
        sources.fails[ActiveSource.DAMON], now = None, BETTER_AGAIN
    real, seen = FakeWatch.step, []

    def leaves(self: FakeWatch, at: float) -> float:
        reads.want({})
        seen.append(self)
        return real(self, at)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeWatch, "step", leaves)
        reads.read_next(now)
    run(reads, now + 1)
    assert seen
    assert all(watch.closed for _, _, watch in sources.made if watch.steps)


def test_a_process_that_ends_in_between_is_a_gap_and_its_watch_is_closed() -> None:
    sources = Sources(damon=None)
    reads = reader(sources)
    reads.want({"a": builders.process(pid=1)})
    run(reads, 0.0)
    watch = sources.made[0][2]
    watch.fails = ProcessGone("/proc/1", "it ended")
    run(reads, 60.0)
    assert watch.closed == 1
    assert reads.newest("a")[1].reason is GapReason.GONE


def test_what_watching_costs_stays_within_its_share() -> None:
    sources = Sources(damon=None)
    sources.cost = 6.0
    reads = reader(sources, percent=1.0)
    reads.want({"a": builders.process(pid=1)})
    assert run(reads, 0.0) == 60.0  # 6 s at 1 % are 600 s: the first 300 are lent
    assert sources.made[0][2].steps == 1
    assert run(reads, 290.0) == pytest.approx(10.0)
    run(reads, 301.0)
    assert sources.made[0][2].steps == 2


def test_nothing_is_left_watched_at_the_end_also_of_vms_that_have_just_gone() -> None:
    sources = Sources(damon=None)
    released = []
    reads = ActiveReads(sources.all(), 100.0, release=lambda: released.append(True), clock=lambda: 0.0)
    reads.want({"a": builders.process(pid=1), "b": builders.process(pid=2)})
    run(reads, 0.0)
    reads.want({"a": builders.process(pid=1)})
    reads._leave()
    assert [watch.closed for _, _, watch in sources.made] == [1, 1]
    assert released == [True]


def test_an_option_chooses_the_sources() -> None:
    offered = Sources(damon=None, referenced=None).all()
    assert list(chosen("auto", offered)) == [ActiveSource.DAMON, ActiveSource.REFERENCED]
    assert list(chosen("referenced", offered)) == [ActiveSource.REFERENCED]
    assert chosen("off", offered) == {}
