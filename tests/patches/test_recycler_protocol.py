"""The protocol of the page recycler, model-checked: it holds, and each rule that is taken away is missed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).with_name("recycler.pml")
PAGE = MODEL.parents[2] / "doc/recycler.md"
BREAKS = sorted(set(re.findall(r"BREAK_\w+", MODEL.read_text())) - {"BREAK_"})
# a copy, or a table that is taken back, shows them
ONLY_EVENTS = {"BREAK_ANSWERS_EARLY", "BREAK_GIVES_WHILE_COPIED", "BREAK_STILL_KNOWN"}
SAFETY = ("-DSAFETY", "-DNOCLAIM")


def check(folder: Path, defines: tuple[str, ...], compiled: tuple[str, ...] = SAFETY, *words: str) -> str:
    """What Spin's verifier says of the model."""
    options = [f"-D{one}" for one in defines]
    for command in (
        ["spin", "-a", *options, str(MODEL)],
        ["gcc", "-O2", "-w", *compiled, "-o", "pan", "pan.c"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    done = subprocess.run(["./pan", "-m200000", *words], cwd=folder, check=True, capture_output=True, timeout=600)
    return done.stdout.decode()


@pytest.mark.parametrize("defines", [(), ("EVENTS",)], ids=["threads", "events"])
def test_the_protocol_holds(defines: tuple[str, ...], tmp_path: Path) -> None:
    said = check(tmp_path, defines)
    assert "errors: 0" in said
    assert "max search depth too small" not in said
    if defines:  # what is never reached is never checked; without events no table is taken back
        unreached = re.findall(r"unreached in proctype (\w+)\n(.*?)\t\((\d+) of", said, re.DOTALL)
        assert {name: count for name, _, count in unreached} == {"guest": "0", "host": "0", "event": "0"}


def test_no_page_stays_busy_while_the_host_lives(tmp_path: Path) -> None:
    assert "errors: 0" in check(tmp_path, ("EVENTS",), (), "-a", "-f")


@pytest.mark.parametrize("broken", BREAKS)
def test_a_rule_that_is_taken_away_is_missed(broken: str, tmp_path: Path) -> None:
    defines = (broken, "EVENTS") if broken in ONLY_EVENTS else (broken,)
    said = check(tmp_path, defines)
    assert "errors: 1" in said
    assert "assertion violated" in said or "invalid end state" in said


def test_the_page_names_each_rule_that_was_taken_away() -> None:
    assert len(BREAKS) >= 3
    assert [one for one in BREAKS if f"`{one}`" not in PAGE.read_text()] == []
