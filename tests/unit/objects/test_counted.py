"""One of a thing is said as one, everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memhint.objects.counted import counted

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((None, "hour"), "- hours"),
        ((0, "hour"), "0 hours"),
        ((1, "hour"), "1 hour"),
        ((2, "hour"), "2 hours"),
        ((1, "line does", "lines do"), "1 line does"),
        ((12, "line does", "lines do"), "12 lines do"),
    ],
)
def test_only_one_of_a_thing_is_one(given: tuple[int | None, str] | tuple[int | None, str, str], said: str) -> None:
    assert counted(*given) == said


@pytest.mark.parametrize("path", sorted(GOLDEN.rglob("*.txt")), ids=lambda path: path.stem)
def test_no_answer_speaks_of_one_things(path: Path) -> None:
    wrong = r"(?<![\d.,:-])1 (VMs|hosts|hours|days|pages|goes|ranges|workers|times|rows|steps|lines)\b"
    assert re.findall(wrong, path.read_text()) == []
