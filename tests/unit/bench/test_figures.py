"""What counted guests printed becomes medians, ranges, verdicts and tables; nonsense is refused."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import (
    Verdict,
    figure,
    most_different,
    percent,
    symbols,
    table,
    time_to,
    windows,
)

MAP = symbols(
    "ffffffff81000000 T _text\nffffffff81000100 t free_one\nffffffff81000200 D data\nffffffff81000300 T alloc\n"
)
CONSOLE = "booting\r\nwindow small\t10\t400\t512\t1\r\nwindow huge\t2\t80\t0\t0\r\ndone\r\nreboot\r\n"
COUNTED = """window 100 200 3 4000 5000 7
at 400100 60
at ffffffff81000100 10
at ffffffff81000250 10
at ffffffff81000300 20
window 50 50 0 0 0 0
at 400100 50
"""


def test_windows_join_what_the_guest_and_the_plugin_tell() -> None:
    small, huge = windows(CONSOLE, COUNTED, MAP)
    assert (small.name, small.operations, small.ticks, small.pages, small.batches) == ("small", 10, 400, 512, 1)
    assert (small.instructions, small.steps, small.minor_faults, small.system_us) == (100, 200, 3, 4000)
    assert (small.wall_us, small.resident) == (5000, 7 * 4096)
    assert small.per_operation == 10
    # data is no function: what lies behind it belongs to the function before it
    assert small.functions == {"(program)": 60, "free_one": 20, "alloc": 20}
    assert sum(small.functions.values()) == small.instructions
    assert huge.functions == {"(program)": 50}


@pytest.mark.parametrize(
    ("console", "counted", "said"),
    [
        (CONSOLE.replace("done", "panic"), COUNTED, "did not come to its end"),
        (CONSOLE.replace("window huge", "widow huge"), COUNTED, "opened 1 windows, the plugin saw 2"),
        (CONSOLE, COUNTED.replace("at 400100 60", "what"), "not a line of the plugin"),
        (CONSOLE, "at 400100 1\n" + COUNTED, "not a line of the plugin"),
        (CONSOLE, COUNTED.replace("window 50 50 0 0 0 0", "window 50"), "unpack"),
    ],
)
def test_half_a_story_is_refused(console: str, counted: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        windows(console, counted, MAP)


def test_an_address_below_the_first_function_has_no_name() -> None:
    assert MAP.name(0xFFFFFFFF80000000) == "(unknown)"
    assert MAP.name(0x400000) == "(program)"


numbers = st.lists(st.floats(min_value=1, max_value=1e9), min_size=1, max_size=9)


@given(numbers)
def test_a_figure_is_the_median_within_its_range(values: list[float]) -> None:
    found = figure(values)
    assert found.median == statistics.median(values)
    assert found.lowest <= found.median <= found.highest
    assert (found.lowest, found.highest) == (min(values), max(values))
    assert found.runs == len(values)


def test_no_values_make_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        figure([])


@given(numbers, st.floats(min_value=0.5, max_value=2))
def test_percent_pairs_runs_that_began_alike(values: list[float], factor: float) -> None:
    found = percent([factor * value for value in values], values)
    assert found.median == pytest.approx(100 * (factor - 1), abs=1e-6)
    # however different the runs are from each other
    assert found.highest - found.lowest == pytest.approx(0, abs=1e-6)


def test_percent_of_unequal_numbers_of_runs_is_refused() -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        percent([1, 2], [1])


@pytest.mark.parametrize(("measured", "met"), [(0.1, True), (0.0, True), (-5.0, True), (0.1001, False)])
def test_a_ceiling(measured: float, met: bool) -> None:
    verdict = Verdict("cost", 0.1, None, measured)
    assert verdict.met is met
    assert str(verdict).startswith("met" if met else "MISSED")
    assert verdict.as_json() == {"what": "cost", "target": {"at_most": 0.1}, "measured": measured, "met": met}


@pytest.mark.parametrize(("measured", "met"), [(5.0, True), (9.0, True), (4.99, False), (0.0, False)])
def test_a_floor(measured: float, met: bool) -> None:
    verdict = Verdict("faster", None, 5.0, measured)
    assert verdict.met is met
    assert verdict.as_json()["target"] == {"at_least": 5.0}


def test_most_different_functions_first_and_equal_ones_not_at_all() -> None:
    arm, base = {"a": 30, "b": 10, "new": 5}, {"a": 10, "b": 10, "gone": 40}
    assert most_different(arm, base, 10) == [("gone", -4.0), ("a", 2.0), ("new", 0.5)]
    assert most_different(arm, base, 10, count=1) == [("gone", -4.0)]


def test_curves() -> None:
    samples = [(0.5, 0.0), (1.0, 40.0), (2.0, 90.0)]
    assert time_to(samples, 40) == 1.0
    assert time_to(samples, 91) is None


def test_a_table_aligns_names_left_and_figures_right() -> None:
    assert table(["arm", "%"], [["base", ""], ["x", "+0.10"]]).splitlines() == ["arm       %", "base", "x     +0.10"]
