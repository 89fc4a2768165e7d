"""What the bench of recycling asks of guests, and works out of what it measured."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bench import duty_host, rota
from bench.cpu import thread_seconds
from bench.duty_host import RECYCLER, PeriodResult
from bench.harness.scale import Scale
from bench.rota import Cycle, Done, working
from bench.suite import recycle
from lab.errors import WorkError
from lab.waiting import wait_for
from memhint.objects.units import GIB, MIB

POSTED = Cycle(1800.0, 150, 20 * MIB, 0.6)


def borne(guests: int, cpu: float = 2.0, **changes: object) -> PeriodResult:
    cycles = [Done("vm1", cpu, 30.0, 512 * MIB)]
    return PeriodResult(**{"guests": guests, "used": [1, 3], "cycles": cycles, "seconds": 10.0, **changes})


def test_the_posted_cycle_is_150_mib_on_average() -> None:
    assert POSTED.average == pytest.approx(150 * MIB)
    assert POSTED.peak == 3000 * MIB


@pytest.mark.parametrize("scale", [Scale.SHORT, Scale.FULL, Scale.SEED])
def test_a_scaled_cycle_has_the_posted_one_s_shape(scale: Scale) -> None:
    sizes, cycle = recycle.sizes_of(scale)
    assert cycle.peak / sizes.guest == pytest.approx(3 / 4)
    assert cycle.busy / cycle.period == pytest.approx(POSTED.busy / POSTED.period)
    # enough peaks fit at a time that one more or less of them does not decide
    assert sizes.budget // cycle.peak >= 5


def test_guests_begin_evenly_over_the_period_and_end_within_it() -> None:
    _, cycle = recycle.sizes_of(Scale.FULL)
    begins = sorted(cycle.begin(number) for number in range(30))
    gaps = [after - before for before, after in pairwise(begins)]
    assert begins[0] >= 0
    assert begins[-1] + cycle.busy <= cycle.period
    assert max(gaps) < 3 * (cycle.period - cycle.busy) / 30


class LateGuest:
    """A guest whose cycles end only at the third look at them. Each takes its processor two seconds."""

    name = "vm1"

    def __init__(self) -> None:
        self.begun = self.looks = 0
        self.refuses = False

    def duty(self, files: int, size: int, step_ms: int) -> None:
        if self.refuses:
            raise WorkError("the last cycle has not ended")
        self.begun += 1
        self.looks = 0

    def duty_done(self) -> dict[str, object]:
        self.looks += 1
        return {"running": self.looks < 3, "cycles": self.begun, "cpu_us": 99_000_000, "wall_ms": 30, "peak": MIB}


def test_a_cycle_costs_what_the_guest_s_processor_took_until_it_ended(monkeypatch) -> None:
    guest = LateGuest()
    monkeypatch.setattr(rota, "_spent", lambda guest: 2.0 * guest.begun)
    monkeypatch.setattr(rota, "AGAIN", 0.001)
    done: list[Done] = []
    with working(Cycle(0.2, 1, MIB, 0.001)) as going:
        going.add(guest, at_once=True)
        wait_for(lambda: done.extend(going.taken()[0]) or len(done) >= 2, 10.0, "two cycles", interval=0.01)
        assert done[:2] == [Done("vm1", 2.0, 0.03, MIB)] * 2
        guest.refuses = True
        wait_for(lambda: going.taken()[1], 10.0, "a cycle that cannot begin to be counted", interval=0.01)
        going.remove(guest)


def test_a_guest_is_late_that_is_still_at_its_cycle_long_after_its_files_were_due(monkeypatch) -> None:
    guest = LateGuest()
    monkeypatch.setattr(rota, "_spent", lambda guest: 0.0)
    monkeypatch.setattr(rota, "AGAIN", 0.001)
    ends = False
    monkeypatch.setattr(guest, "duty_done", lambda: {"running": not ends, "wall_ms": 30, "peak": MIB})
    cycle = Cycle(60.0, 1, MIB, 0.001)
    with working(cycle) as going:
        assert going.late() == 0
        going.add(guest, at_once=True)
        wait_for(lambda: going.late() == 1, 10.0, "the guest to be late", interval=0.01)
        going.remove(guest)
        assert going.late() == 0, "who was taken away is late no more"
        going.add(guest, at_once=True)
        wait_for(lambda: going.late() == 1, 10.0, "the guest to be late", interval=0.01)
        ends = True
        wait_for(lambda: going.late() == 0, 10.0, "the guest to have caught up", interval=0.01)


class Slow:
    """A rota whose guests are late for so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def late(self) -> int:
        self.looks -= 1
        return max(0, self.looks)


def test_what_an_overload_has_left_is_waited_for_but_not_for_ever(monkeypatch) -> None:
    monkeypatch.setattr(duty_host, "_LOOK", 0.001)
    catches_up = Slow(5)
    duty_host._calm_down(Cycle(60.0, 1, MIB, 0.1), catches_up)
    assert catches_up.looks == 0
    never = Slow(1_000_000)
    duty_host._calm_down(Cycle(0.01, 1, MIB, 0.001), never)
    assert never.looks > 0


def test_guests_are_compared_with_those_that_fit_as_they_are_and_peaks_with_stock() -> None:
    found = {
        recycle.NOTHING.name: borne(3),
        recycle.STOCK.name: borne(20, cpu=2.0),
        recycle.RECYCLER.name: borne(31, cpu=2.3, kills=0),
    }
    verdicts = recycle.targets(found)
    assert [one.measured for one in verdicts] == pytest.approx([31 / 3, 0.0, 1.15])
    assert [one.met for one in verdicts] == [True, True, False]


def test_a_cycle_that_fell_short_and_one_that_could_not_begin_are_said() -> None:
    _, cycle = recycle.sizes_of(Scale.FULL)
    found = {"arm": borne(3, missed=2)}
    short, late = recycle.notes(found, cycle, GIB)
    assert short.startswith("arm: 1 of 1 cycles did not reach")
    assert "2 cycles could not begin" in late


def test_guests_by_bytes_are_not_rounded_and_leave_qemu_s_own_memory_out_where_asked() -> None:
    plain = borne(4, used=[1000 * MIB, 1760 * MIB], own=80 * MIB)
    mine = borne(32, used=[1900 * MIB, 2000 * MIB], own=800 * MIB)
    budget = 2 * GIB
    assert recycle.by_bytes(plain, budget) == pytest.approx(2048 / 440)
    assert recycle.by_bytes(plain, budget, own=False) == pytest.approx(2048 / 420)
    assert recycle.by_bytes(mine, budget, own=False) == pytest.approx(2048 / 37.5)
    _, cycle = recycle.sizes_of(Scale.SHORT)
    said = recycle.notes({recycle.NOTHING.name: plain, recycle.RECYCLER.name: mine}, cycle, budget)
    assert said[0].endswith("as they are: 8.0 in whole guests, 7.0 by bytes, 11.2 by guests' memory")


def test_threads_are_known_by_how_their_names_begin(tmp_path) -> None:
    for tid, name, ticks in (("1", "qemu-system-x86", 500), ("2", "recycler/0", 40), ("3", "recycler/1", 60)):
        task = tmp_path / "task" / tid
        task.mkdir(parents=True)
        (task / "comm").write_text(name + "\n")
        (task / "stat").write_text(f"{tid} ({name}) S " + " ".join(["0"] * 10) + f" {ticks} 0 0\n")
    assert thread_seconds(tmp_path, RECYCLER) == pytest.approx(1.0)
