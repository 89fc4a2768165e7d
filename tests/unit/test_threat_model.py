"""doc/threat-model.md has no sentence that no test holds, and names no test that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "doc" / "threat-model.md").read_text()
SECTIONS = dict(
    (title, body) for title, _, body in (part.partition("\n") for part in re.split(r"^## ", TEXT, flags=re.M)[1:])
)
TABLES = {"Who is trusted", "The drill", "What holds these sentences", "Not covered"}


def rows(section: str) -> list[list[str]]:
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def paragraphs() -> list[str]:
    """Each in one line, without those that go on with the one before and those that are a table or a sample."""
    found = []
    for title, body in SECTIONS.items():
        if title in TABLES:
            continue
        for part in re.split(r"\n\s*\n|\n(?=- )", body):
            line = " ".join(part.split()).removeprefix("- ")
            if (line and line[0] not in "|[" and not line[0].islower()) or line.startswith("memhint "):
                found.append(line)
    return found


HELD = {first.removesuffix(" …"): tests for first, tests in rows("What holds these sentences")}


@pytest.mark.parametrize("paragraph", paragraphs(), ids=lambda text: text[:40])
def test_each_paragraph_has_what_holds_it(paragraph: str) -> None:
    assert [first for first in HELD if paragraph.startswith(first)], paragraph


@pytest.mark.parametrize("first", HELD)
def test_what_holds_it_is_there(first: str) -> None:
    assert any(paragraph.startswith(first) for paragraph in paragraphs()), "a paragraph that is not there any more"
    named = re.findall(r"`([\w/]+\.py)`", HELD[first])
    assert named or HELD[first] == "a limit"
    for name in named:
        assert (ROOT / "tests" / name).exists(), name


@pytest.mark.parametrize("row", rows("The drill"), ids=lambda row: row[1][:40])
def test_each_attack_names_a_test(row: list[str]) -> None:
    where = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", row[-1])
    assert where, row
    last = ""
    for name, function in where:
        candidates = [ROOT / name, ROOT / "tests" / "adversary" / name, ROOT / Path(last).parent / name]
        file = next((one for one in candidates if one.exists()), None)
        assert file is not None, name
        last = name
        assert not function or f"def {function}(" in file.read_text(), function
