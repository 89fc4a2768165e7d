"""Release notes can be read by reno, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from memhint.conf.opts import list_opts

ROOT = Path(__file__).parents[2]
NOTES = sorted((ROOT / "releasenotes/notes").iterdir())
SECTIONS = {"prelude", "features", "issues", "upgrade", "deprecations", "critical", "security", "fixes", "other"}
OPTION = re.compile(r"``\[(\w+)\] (\w+)")
PAGE = re.compile(r"``(doc/[\w/.-]+\.md)``")
ONE_BACKTICK = re.compile(r"(?<!`)`(?!`)")


def read(note: Path) -> dict[str, str | list[str]]:
    return yaml.safe_load(note.read_text())


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_a_note_has_a_name_and_sections_that_reno_takes(note: Path) -> None:
    assert re.fullmatch(r"[a-z0-9-]+-[0-9a-f]{16}\.yaml", note.name)
    sections = read(note)
    assert sections.keys() <= SECTIONS
    assert isinstance(sections.pop("prelude", ""), str)
    assert all(isinstance(text, str) and text.strip() for texts in sections.values() for text in texts)


def test_no_two_notes_share_what_reno_tells_them_apart_by() -> None:
    assert len({note.stem[-16:] for note in NOTES}) == len(NOTES)


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_options_and_pages_that_a_note_names_exist(note: Path) -> None:
    text = note.read_text()
    defined = {(group, option.dest) for group, options in list_opts() for option in options}
    assert set(OPTION.findall(text)) <= defined
    assert [page for page in PAGE.findall(text) if not (ROOT / page).exists()] == []


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.stem)
def test_code_in_a_note_is_in_two_backticks(note: Path) -> None:
    assert not ONE_BACKTICK.search(note.read_text())
