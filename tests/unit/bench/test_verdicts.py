"""Which way is held to what, from windows and drains that were made up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import drained_guest as drains
from bench import instructions as bench
from bench.counted_guest import SHIFT, GuestFailed
from bench.drained_guest import Drain
from bench.figures import Window
from bench.harness.result import Result
from bench.harness.scale import Scale
from bench.suite import drain as drain_bench
from bench.suite import netperf, pagefault
from memhint.objects.units import GIB, MIB

STEPS = 1000
PER_BLOCK = 512  # pages


def window(name: str, way: bench.Variant, instructions: int) -> Window:
    """As that way would show it."""
    pages = PER_BLOCK if way.counted else 0
    resident = (140 if way.returned else 940) * MIB
    ticks = STEPS << SHIFT
    return Window(name, 1000, ticks, pages, pages // PER_BLOCK, instructions, STEPS, 100, 2000, 3000, resident)


def counted(names: list[str], instructions: dict[bench.Variant, int]) -> bench.Counted:
    return {way.name: [{one: window(one, way, value) for one in names}] * 3 for way, value in instructions.items()}


def faults(instructions: dict[bench.Variant, int]) -> Result:
    names = [f"{kind}-{tasks}" for kind in ("base", "thp") for tasks in ("1", "4t")]
    return pagefault.told(Scale.SHORT, list(instructions), counted(names, instructions), {})


@pytest.mark.parametrize(
    ("disabled", "enabled", "met"),
    [
        (1_000_000, 1_000_000, [True, True]),
        (1_000_900, 1_009_000, [True, True]),
        (1_001_100, 1_009_000, [False, True]),
        (1_000_000, 1_011_000, [True, False]),
        (990_000, 990_000, [True, True]),
    ],
)
def test_each_kind_of_page_is_held_to_the_target_of_its_way(disabled: int, enabled: int, met: list[bool]) -> None:
    found = faults({bench.BASE: 1_000_000, bench.DISABLED: disabled, bench.ENABLED: enabled})
    assert len(found.targets) == 2 * 2
    assert [one.met for one in found.targets] == [value for value in met for _ in range(2)]
    # what misses a target says where
    told = [note for note in found.notes if note.startswith("Where ")]
    assert [note.split(" differs")[0] for note in told] == [
        f"Where {way.name}" for way, good in zip((bench.DISABLED, bench.ENABLED), met, strict=True) if not good
    ]


def test_the_dearest_number_of_tasks_counts() -> None:
    found = counted(["base-1", "base-4t"], {bench.BASE: 1_000_000, bench.ENABLED: 1_005_000})
    for run in found[bench.ENABLED.name]:
        run["base-4t"] = replace(run["base-4t"], instructions=1_020_000)
    assert bench.dearest(found, bench.ENABLED, ["base-1"]) == pytest.approx(0.5)
    assert bench.dearest(found, bench.ENABLED, ["base-1", "base-4t"]) == pytest.approx(2)


def test_paused_is_held_to_an_unmodified_kernel_that_reports() -> None:
    found = faults({bench.BASE: 1_000_000, bench.STOCK: 1_002_500, bench.PAUSED: 1_002_600})
    assert found.met
    assert not faults({bench.BASE: 1_000_000, bench.STOCK: 1_000_000, bench.PAUSED: 1_002_600}).met


def test_a_table_has_what_a_way_can_tell_and_gaps_for_the_rest() -> None:
    base, huge, host = faults({bench.BASE: 1_000_000, bench.ENABLED: 1_005_000}).tables
    assert [column.label for column in base.columns] == [
        "instructions per page, 1 task",
        "more, 1 task",
        "more, 4 threads",
    ]
    unmodified, enabled = huge.arms
    assert unmodified.figures["1"] is None
    more, per_block = enabled.figures["1"], enabled.figures["per_block"]
    assert more
    assert more.median == pytest.approx(0.5)
    assert per_block
    assert per_block.median == 5000  # two windows with a block each
    reported, per_fault = host.arms[1].figures["reported"], host.arms[1].figures["per_fault"]
    assert host.arms[0].figures["reported"] is None
    assert reported
    assert reported.median == 4 * 2 * MIB
    assert per_fault
    assert per_fault.median == 20
    # too little was reported to tell what a GiB costs
    assert "per GiB" not in " ".join(column.label for column in host.columns)


def test_a_way_that_did_not_do_what_it_is_for_gives_no_figure() -> None:
    for way in bench.WAYS:
        good = window("any", way, 1)
        bench.check(way, [good])
        with pytest.raises(GuestFailed, match=f"{way.name}: {0 if way.counted else PER_BLOCK} pages"):
            bench.check(way, [replace(good, pages=0 if way.counted else PER_BLOCK)])
        with pytest.raises(GuestFailed, match="when the first window opened"):
            bench.check(way, [replace(good, resident=(940 if way.returned else 140) * MIB)])
        with pytest.raises(GuestFailed, match="steps took"):
            bench.check(way, [replace(good, ticks=good.ticks * 1003 // 1000)])


def test_what_locks_qemus_memory_gets_none_back() -> None:
    assert not bench.KEPT.returned
    assert bench.KEPT.counted
    assert bench.ENABLED.returned
    assert bench.PAUSED.returned
    assert not bench.DISABLED.returned


def test_host_cost_is_per_gib_reported_and_left_open_below_one() -> None:
    base = {name: window(name, bench.BASE, 1) for name in ("a", "b", "c")}
    more = {name: replace(one, minor_faults=400, system_us=32000, pages=GIB // 4096) for name, one in base.items()}
    few = {name: replace(one, pages=GIB // 4096 // 4) for name, one in more.items()}
    found = bench.host_costs({bench.BASE.name: [base], bench.ENABLED.name: [more]}, bench.ENABLED)
    assert found is not None
    assert (found[0].median, found[1].median) == (300, 30)
    assert bench.host_costs({bench.BASE.name: [base], bench.ENABLED.name: [few]}, bench.ENABLED) is None


@pytest.mark.parametrize(("enabled", "met"), [(1_010_000, True), (1_011_000, False), (990_000, True)])
def test_a_stream_is_held_to_one_percent(enabled: int, met: bool) -> None:
    instructions = {bench.BASE: 1_000_000, bench.STOCK: 1_500_000, bench.ENABLED: enabled}
    found = netperf.told(Scale.SHORT, list(instructions), counted([netperf.WINDOW], instructions), {})
    assert found.met is met
    assert len(found.targets) == 1  # what is not ours is not held to anything
    assert any(note.startswith("Where applied, enabled differs") for note in found.notes) is not met


def drained(at: float | None, mib: int = 100) -> Drain:
    curve = ((0.0, 0.0), (at, mib * MIB * 0.95)) if at is not None else ((0.0, 0.0), (60.0, 0.0))
    return Drain(mib * MIB, curve)


def told(stock: list[float | None], pressed: list[float | None], balloon: list[float | None]) -> Result:
    ways = (drains.STOCK, drains.PRESSED, drains.BALLOON)
    runs = {way.name: [drained(at) for at in times] for way, times in zip(ways, (stock, pressed, balloon), strict=True)}
    return drain_bench.told(Scale.SHORT, ways, {100: runs}, {})


@pytest.mark.parametrize(
    ("stock", "pressed", "balloon", "met"),
    [
        (10.0, 1.0, 4.0, [True, True]),
        (10.0, 1.1, 4.0, [False, True]),
        (10.0, 0.9, 0.8, [True, False]),
        # what never comes so far counts as long as was looked
        (10.0, None, 4.0, [False, False]),
        (None, 1.0, None, [True, True]),
    ],
)
def test_pressure_is_held_to_a_tenth_of_stock_and_to_the_balloon(
    stock: float | None, pressed: float | None, balloon: float | None, met: list[bool]
) -> None:
    found = told([stock], [pressed], [balloon])
    assert [one.met for one in found.targets] == met
    shown = found.tables[0].arms[1].figures["most"]
    assert (shown.median if shown else None) == pressed


def test_rounds_that_never_come_to_90_percent_are_told() -> None:
    found = told([10.0, 10.0, 10.0], [1.0, 1.0, 1.0], [4.0, None, 4.0])
    assert "100 MiB, balloon inflated: 1 of 3 rounds never came to 90 %." in found.notes
    assert not any("never came" in note for note in told([10.0], [1.0], [4.0]).notes)


def test_rounds_are_compared_one_by_one() -> None:
    # the machine was slow in the second round, for all alike
    found = told([10.0, 100.0, 10.0], [1.0, 10.0, 5.0], [4.0, 40.0, 4.0])
    assert [one.measured for one in found.targets] == [pytest.approx(0.1), pytest.approx(0.25)]


def test_one_that_stalled_does_not_win_over_one_that_took_long() -> None:
    stalled = Drain(100 * MIB, ((0.0, 0.0), (1.0, 59.0 * MIB), (11.0, 59.0 * MIB)))
    slow = drained(30.0)
    assert (stalled.bound, slow.bound) == (drains.WINDOW, 30.0)
    assert drains.ratio([stalled], [slow]) == 2.0
    assert drains.middle([stalled, slow, drained(40.0)]).bound == 40.0


def test_the_curve_that_is_drawn_is_of_the_round_in_the_middle() -> None:
    slow, quick, between = drained(9.0), drained(1.0), drained(2.0)
    assert drains.middle([slow, quick, between]) is between
    found = told([9.0, 1.0, 2.0], [1.0] * 3, [1.0] * 3)
    assert found.plots[0].curves[0].points == [(0.0, 0.0), (2.0, 95.0)]


def test_a_curve_keeps_its_bends() -> None:
    flat = [(at / 10, 0.0) for at in range(20)]
    found = Drain(10 * MIB, (*flat, (2.0, 5.0 * MIB), (2.1, 9.5 * MIB)))
    assert drains.curve(found) == [(0.0, 0.0), (1.9, 0.0), (2.0, 5.0), (2.1, 9.5)]
    assert found.seconds(0.5) == 2.0
    assert found.seconds(0.9) == 2.1


def test_ways_share_a_guest_only_where_it_is_the_same() -> None:
    assert drains.SLOW.guest == drains.FAST.guest == drains.PRESSED.guest
    assert len({way.guest for way in drains.METHODS}) == 5
