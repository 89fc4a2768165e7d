"""A watch by DAMON: what it asks, when, and that nobody else is kept from asking meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from memhint.kernel import damon_watch
from memhint.kernel.damon import Pattern, Region
from memhint.kernel.damon_watch import RANGES_EVERY, DamonWatch
from memhint.kernel.errors import InterfaceInUse, ProcessGone
from memhint.kernel.guest_ram import GuestRam, Span
from memhint.kernel.root import KernelRoot
from memhint.objects.heat import Heat
from memhint.objects.units import MIB
from tests.unit import builders

SIZE = 100 * MIB
START = 1 << 40
WINDOW, DRIFT = 10.0, 0.01  # the kernel's sleep is a little longer


class Machine:
    """A clock, and a DAMON that answers at the end of a window. A tenth of the memory is touched in each."""

    def __init__(self) -> None:
        self.now, self.began = 1000.0, 0.0
        self.regions_told = True
        self.gone = False
        self.started: list[tuple[Sequence[Span], Sequence[Pattern]]] = []
        self.fixed: list[bool] = []
        self.waited: list[tuple[str, float]] = []
        self.stopped = 0

    def clock(self) -> float:
        return self.now

    def start(
        self, pid: int, regions: Sequence[Span], window_us: int, patterns: Sequence[Pattern], *, fixed: bool = False
    ) -> int:
        assert window_us == WINDOW * 1e6
        self.started.append((regions, patterns))
        self.fixed.append(fixed)
        self.began = self.now
        return 0

    def stop(self, slot: int) -> None:
        self.stopped += 1

    def tells_regions(self, slot: int) -> bool:
        return self.regions_told

    def cpu(self, slot: int) -> float | None:
        return 0.5

    @property
    def windows(self) -> int:
        return int((self.now - self.began) / (WINDOW + DRIFT))

    def _wait(self, what: str) -> None:
        end = self.began + (self.windows + 1) * (WINDOW + DRIFT)
        self.waited.append((what, end - self.now))
        self.now = end + 0.001

    def counted(self, slot: int) -> tuple[int, ...] | None:
        self._wait("counts")
        if self.gone:
            return None
        size = sum(one.size for one in self.started[-1][0])
        untouched = [
            size - SIZE // 10 if not one.age[0] or one.age[0] < self.windows else 0 for one in self.started[-1][1][1:]
        ]
        return (size * self.windows, *(one * self.windows for one in untouched))

    def regions(self, slot: int) -> tuple[Region, ...]:
        self._wait("ranges")
        middle = START + SIZE // 10
        absent = Region(4096, 8192, 0, self.windows)
        return absent, Region(START, middle, 1, 4), Region(middle, START + SIZE, 0, self.windows)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = GuestRam((Span(START, START + SIZE),), SIZE, 0, False, 0)
    monkeypatch.setattr(damon_watch, "read_guest_ram", lambda root, pid: found)
    monkeypatch.setattr(damon_watch, "process_memory", lambda root, pid: builders.process(rss=SIZE))
    return Machine()


def watch(machine: Machine, interval: float = 60.0, *, ranges: bool = False) -> DamonWatch:
    found = DamonWatch(KernelRoot(), machine, 1, interval, regions=10, wall=machine.clock, clock=machine.clock)
    found.ranges = found.with_heat = ranges
    return found


def run(watch: DamonWatch, machine: Machine, seconds: float, late: float = 0.0) -> list[tuple[str, float]]:
    """Whoever comes when it is told, or so much later; what was asked meanwhile, and how long DAMON took to answer."""
    until, before = machine.now + seconds, len(machine.waited)
    while machine.now < until:
        machine.now = max(machine.now, watch.step(machine.now)) + late
    return machine.waited[before:]


def test_it_is_asked_shortly_before_a_window_ends(machine: Machine) -> None:
    asked = run(watch(machine), machine, 3600.0)
    assert 55 <= len(asked) <= 60
    assert all(what == "counts" and 0.1 < waited < 0.7 for what, waited in asked)


def test_who_comes_too_late_waits_for_the_next_window_and_not_for_ever(machine: Machine) -> None:
    asked = run(watch(machine), machine, 3600.0, late=1.0)
    assert len(asked) >= 25
    assert sum(waited for _, waited in asked) / len(asked) < WINDOW


class Beside(Machine):
    """Another process of the same machine."""

    def __init__(self, other: Machine) -> None:
        self._other = other
        super().__init__()

    @property
    def now(self) -> float:
        return self._other.now

    @now.setter
    def now(self, now: float) -> None:
        self._other.now = now


@pytest.mark.parametrize("count", [2, 3])
def test_watches_whose_windows_end_together_are_answered_in_turn(machine: Machine, count: int) -> None:
    """One at a time is asked, and waits: who was passed over is asked before the others the next time."""
    machines = [machine, *(Beside(machine) for _ in range(count - 1))]
    watches = [watch(one, WINDOW) for one in machines]
    due = {}
    for number, one in enumerate(watches):
        machine.now = 1000.0 + number * 0.04
        due[number] = one.step(machine.now)
    news: list[list[float]] = [[machine.now] for _ in watches]
    while machine.now < 2000.0:
        number = min(due, key=lambda one: due[one])
        machine.now = max(machine.now, due[number])
        before = len(machines[number].waited)
        due[number] = watches[number].step(machine.now)
        if len(machines[number].waited) > before:
            news[number].append(machine.now)
    assert all(after - before < (count + 1) * WINDOW for one in news for before, after in pairwise(one))


def test_ranges_and_counts_are_asked_for_at_ends_of_different_windows(machine: Machine) -> None:
    one = watch(machine, ranges=True)
    asked = run(one, machine, 600.0)
    assert [what for what, _ in asked[:4]] == ["ranges", "counts", "ranges", "counts"]
    assert all(0.1 < waited < 0.7 for _, waited in asked)
    assert one.range_reads >= 600 / RANGES_EVERY - 2
    assert one.heat is not None
    cold = one.heat.ranges[1]
    assert one.heat.ranges[0] == Heat(START, START + SIZE // 10, 50.0, 0.0)
    assert (cold.start, cold.end, cold.busy) == (START + SIZE // 10, START + SIZE, 0.0)
    assert cold.idle == pytest.approx(600.0, abs=60.0)


@pytest.mark.parametrize("ranges", [False, True])
def test_both_ways_find_the_same_ages(machine: Machine, ranges: bool) -> None:
    one = watch(machine, ranges=ranges)
    run(one, machine, 700.0)
    assert one.newest is not None
    assert [age.age for age in one.newest.idle] == [10, 60, 600]
    assert one.newest.idle[0].bytes == pytest.approx(0.9 * SIZE, rel=1e-3)
    assert one.newest.active == pytest.approx(0.1 * SIZE, rel=1e-2)
    if ranges:
        assert one.newest.idle[2].bytes == pytest.approx(0.9 * SIZE, rel=1e-3)


def test_ranges_are_watched_without_schemes_that_may_find_nothing(machine: Machine) -> None:
    one = watch(machine)
    one.step(machine.now)
    assert len(machine.started[0][1]) == 5
    one.ranges = one.with_heat = True
    run(one, machine, 100.0)
    spans, patterns = machine.started[1]
    assert machine.stopped == 1
    assert patterns == (Pattern(), Pattern(accesses=(0, 0)))
    assert (spans[0].start, spans[0].size) == (4096, 4096), "a page that is never there: each scheme finds something"
    one.ranges = one.with_heat = False
    run(one, machine, 100.0)
    assert len(machine.started[2][1]) == 5
    assert machine.fixed == [False, True, False], "each range that is read costs; what is counted only does not"


def test_a_kernel_that_tells_no_ranges_is_asked_for_ages_as_ever(machine: Machine) -> None:
    machine.regions_told = False
    one = watch(machine, ranges=True)
    asked = run(one, machine, 700.0)
    assert {what for what, _ in asked} == {"counts"}
    assert len(machine.started) == 2
    assert one.heat is None
    assert one.newest is not None
    assert len(one.newest.idle) >= 2


def test_counts_of_other_schemes_than_were_set_are_not_taken(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one = watch(machine)
    run(one, machine, 100.0)
    monkeypatch.setattr(machine, "counted", lambda slot: (1, 2))
    with pytest.raises(InterfaceInUse):
        run(one, machine, 100.0)


def test_a_process_that_ended_is_said_to_be_gone(machine: Machine) -> None:
    one = watch(machine)
    machine.gone = True
    with pytest.raises(ProcessGone):
        run(one, machine, 100.0)
    assert machine.stopped == 1
