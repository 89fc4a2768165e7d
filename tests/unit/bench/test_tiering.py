"""What accesses weigh, when a move has settled, and what that is held against."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from bench.harness.scale import Scale
from bench.suite.tiering import (
    FACTS,
    INTERLEAVE,
    MEMHINT,
    ORACLE,
    ROW,
    SIZES,
    ArmResult,
    ArmSetup,
    Phase,
    Size,
    compiled,
    lasting,
    result,
    shipped,
    targets,
)
from bench.tiered import AgentSample, Row, after, at_rest, moved, settled, together, weighted
from memhint.levers.tiering import TieringSettings
from memhint.objects.units import MIB


def row(at: float, fast: int, slow: int, phase: int = 0) -> Row:
    return Row(at, phase, fast, slow, 0, 0)


def test_an_access_to_the_slow_node_weighs_three_and_rows_count_by_their_accesses() -> None:
    assert weighted([row(5, 10, 0)]) == 1.0
    assert weighted([row(5, 0, 10)]) == 3.0
    assert weighted([row(5, 1, 1)]) == 2.0
    assert weighted([row(5, 30, 0), row(10, 0, 10)]) == 1.5
    assert weighted([row(5, 1, 1)], 5.0) == 3.0
    with pytest.raises(ValueError, match="nothing"):
        weighted([])


def test_a_move_has_settled_once_no_later_row_is_beyond_the_bound() -> None:
    rows = [row(105, 0, 10), row(110, 10, 0), row(115, 0, 10), row(120, 10, 0), row(125, 10, 0)]
    assert settled(rows, 100, 1.1) == 20
    assert settled(rows[:2], 100, 1.1) == 10
    assert settled(rows, 100, 3.0) == 5
    assert settled(rows[:3], 100, 1.1) is None, "it was, and is no more"
    assert settled([], 100, 1.1) is None


def test_rows_of_vms_are_those_of_the_same_moment() -> None:
    (both,) = together([[row(5, 1, 2)], [row(5, 3, 4)]])
    assert (both.at, both.fast, both.slow) == (5, 4, 6)
    with pytest.raises(ValueError, match="different moments"):
        together([[row(5, 1, 2)], [row(10, 3, 4)]])
    with pytest.raises(ValueError, match="shorter"):
        together([[row(5, 1, 2)], []])


def test_rows_count_from_their_own_phase() -> None:
    rows = [row(50, 1, 1), row(130, 2, 1), row(205, 3, 1, phase=1), row(325, 4, 1, phase=1)]
    assert after(rows, [0.0, 200.0], 120.0) == [rows[1], rows[3]]


def test_cpu_and_bytes_are_those_between_looks_within() -> None:
    looks = [
        AgentSample(0, 0.0, 0),
        AgentSample(10, 5.0, 7),
        AgentSample(20, 5.1, 7),
        AgentSample(30, 5.3, 9),
        AgentSample(40, 9.0, 99),
    ]
    assert at_rest(looks, 10, 30) == pytest.approx(1.5)
    assert at_rest(looks, 10, 15) is None
    assert (moved(looks, 10, 30), moved(looks, 50, 60)) == (2, 0)


SIZE = Size(32, (Phase(150, (20, 4)), Phase(300, (4, 20))), (INTERLEAVE, MEMHINT, ORACLE))


def told(way: ArmSetup, shares: dict[int, float], late: float = 0.0, cpu: float = 0.001) -> ArmResult:
    """A share of accesses to the slow node in each phase; all of them for some seconds after its beginning."""
    rows, began, looks = [], 0.0, []
    for number, seconds in enumerate(lasting(way, SIZE)):
        at = began + ROW
        while at <= began + seconds:
            slow = 1000 if at - began <= late else int(1000 * shares[number])
            rows.append([1000 * at, number, 1000 - slow, slow, 0, 16 * MIB])
            looks.append((at, cpu * at, 0))
            at += ROW
        began += seconds
    return ArmResult.of(way, SIZE, {"rows": {"vm0": rows, "vm1": rows}, "looks": looks})


def all_told(**ours: Any) -> dict[str, ArmResult]:
    return {
        INTERLEAVE.name: told(INTERLEAVE, {0: 0.5, 1: 0.5}),
        MEMHINT.name: told(MEMHINT, {0: 0.5, 1: 0.1}, **ours),
        ORACLE.name: told(ORACLE, {0: 0.04, 1: 0.08}),
    }


def test_it_is_held_against_interleaving_and_an_oracle_from_when_on_it_is_to_have_settled() -> None:
    interleave, oracle, seconds, cpu = targets(all_told(late=100.0))
    assert interleave.measured == pytest.approx(1.2 / 2.0)
    assert oracle.measured == pytest.approx(1.2 / 1.16)
    assert seconds.measured == 110.0, "of the move, and not of the first phase, which never settled"
    assert cpu.measured == pytest.approx(0.1)
    assert all(one.met for one in (interleave, oracle, seconds, cpu))


def test_a_move_that_never_settled_took_as_long_as_its_phase() -> None:
    found = all_told()
    found[MEMHINT.name] = told(MEMHINT, {0: 0.0, 1: 0.2}, cpu=0.02)
    _, oracle, seconds, cpu = targets(found)
    assert seconds.measured == 300.0
    assert not any(one.met for one in (oracle, seconds, cpu))
    arm = result(Scale.SMOKE, SIZE, found).tables[0].arms[1]
    assert arm.figures["settled"] is None, "there is no time to tell"


def test_what_depends_on_no_time_is_not_waited_for() -> None:
    assert lasting(ORACLE, SIZE) == [60.0, 60.0]
    assert lasting(MEMHINT, SIZE) == [150, 300]
    found = result(Scale.SMOKE, SIZE, all_told())
    assert [arm.name for arm in found.tables[0].arms] == [INTERLEAVE.name, MEMHINT.name, ORACLE.name]
    assert found.tables[0].arms[2].figures["settled"] is None
    assert [curve.name for curve in found.plots[0].curves] == [MEMHINT.name]


def test_the_settings_are_those_that_are_shipped() -> None:
    found = shipped()
    assert TieringSettings(**found["tiering"]) == dataclasses.replace(TieringSettings(), patience=20.0)


@pytest.mark.parametrize("scale", list(SIZES))
def test_what_is_hot_is_three_quarters_of_the_fast_node_and_moves_at_uneven_times(scale: Scale) -> None:
    size = SIZES[scale]
    assert {sum(phase.hot) for phase in size.phases} == {size.all * 3 // 8}
    assert all(one < size.mib and one % 4 == 0 for phase in size.phases for one in phase.hot)
    assert size.mib % 4 == 0
    if scale is not Scale.SMOKE:
        assert all(phase.seconds % 60 for phase in size.phases[1:])
        assert all(phase.seconds >= 240 for phase in size.phases), "time to rest"


def test_the_program_counts_every_access_and_moves_what_is_hot(tmp_path: Path) -> None:
    """It needs a second, for it plays by the clock."""
    facts = [f"{name}={value}" for name, value in FACTS.items()]
    begin = time.monotonic_ns() + 50_000_000
    words = ["play", str(tmp_path / "vm"), "8", f"begin={begin}", "row=200", "place=0", *facts, "400:4", "400:4"]
    done = subprocess.run([compiled(tmp_path), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [[int(word) for word in line.split()] for line in (tmp_path / "vm.rows").read_text().splitlines()]
    assert [one[:2] for one in rows] == [[200, 0], [400, 0], [600, 1], [800, 1]]
    assert {one[2] + one[3] for one in rows} == {FACTS["rate"] // 5}
    assert {one[4] for one in rows} <= {0, 4 * MIB}, "on a machine of one node all of it lies there"


@pytest.mark.parametrize("words", [["play", "x", "7"], ["play", "x", "7", "1:4"], ["play", "x", "8", "1:8"], ["what"]])
def test_the_program_refuses_what_it_cannot_play(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run([compiled(tmp_path), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr
