"""What the time of one's own reads and writes tells of others once KSM has merged: the threat model's figures.

Two processes stand for VMs of two projects, with this machine's KSM. In an emulated guest time says nothing.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench import ksm

ROUNDS = 4000  # of each: a line that the other reads, and one that it leaves alone
TRIES = 8
PATIENCE = 300


@dataclass(frozen=True, slots=True)
class Cycles:
    """Of the processor's time stamp counter: the median, and the 5th and 95th percentile."""

    median: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Told:
    """What the watcher measured: `writes` and `reloads` by what they were of, and `seen` reads in so many rounds."""

    writes: Mapping[str, Cycles]
    reloads: Mapping[str, Cycles]
    seen: Mapping[str, tuple[int, int]]  # where the other read, and where it did not

    def sees(self, what: str) -> bool:
        """Whether most reads of the other were seen, and hardly any that were none."""
        read, alone = self.seen[what]
        return read > 0.5 * ROUNDS > 5 * alone


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Told]:
    """What was told, again and again until a read was seen: two virtual processors share a cache now and then only."""
    if platform.machine() != "x86_64" or not {0, 1} <= os.sched_getaffinity(0):
        pytest.skip("it takes an x86-64 processor, for its clock, with two cores")
    program = tmp_path_factory.mktemp("timing") / "merged_page_timing"
    source = Path(__file__).with_name("merged_page_timing.c")
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    found: list[Told] = []
    with ksm.scanning({**ksm.FLAT_OUT, "smart_scan": "0"}):
        while len(found) < TRIES and not (found and found[-1].sees("zero_page")):
            done = subprocess.run([program, str(ROUNDS)], capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert done.returncode == 0, done.stderr
            print(done.stdout)
            found.append(told_by(done.stdout))
    return found


def told_by(text: str) -> Told:
    found: dict[str, dict[str, tuple[int, ...]]] = {"write": {}, "reload": {}, "seen": {}}
    for line in text.splitlines():
        what, name, *numbers = line.split()
        found[what][name] = tuple(int(one) for one in numbers)
    return Told(
        {name: Cycles(*three) for name, three in found["write"].items()},
        {name: Cycles(*three) for name, three in found["reload"].items()},
        {name: (read, alone) for name, (read, alone, _) in found["seen"].items()},
    )


def test_a_write_tells_whether_another_has_the_same_data(runs: Sequence[Told]) -> None:
    """That KSM merges data within a project only is because of this: it shows that the clock is good enough, too."""
    for told in runs:
        assert told.writes["data_other_has"].low > 2 * told.writes["data_other_has_not"].median


def test_a_write_to_a_page_of_zeros_tells_nothing_of_others(runs: Sequence[Told]) -> None:
    """All of one's own have become the zero page, whoever else has some: another's make no difference to speak of."""
    for told in runs:
        before, has, after = (told.writes[f"zero_other_{one}"].median for one in ("will_have", "has", "had"))
        of_data = told.writes["data_other_has"].median - told.writes["data_other_has_not"].median
        assert abs(has - (before + after) / 2) < of_data / 2


def test_a_read_tells_that_somebody_reads_the_zero_page(runs: Sequence[Told]) -> None:
    """Why pages of zeros of several projects become the zero page only where an operator says so."""
    if not any(told.sees("zero_page") or told.sees("data_page") for told in runs):
        pytest.skip(f"in {len(runs)} runs the two processors shared no cache: of merged data nothing was seen either")
    assert any(told.sees("zero_page") for told in runs)


def test_a_read_of_a_page_of_ones_own_tells_nothing(runs: Sequence[Told]) -> None:
    for told in runs:
        read, alone = told.seen["own_page"]
        assert read < 0.2 * ROUNDS
        assert alone < 0.2 * ROUNDS
