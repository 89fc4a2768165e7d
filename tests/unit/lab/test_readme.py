"""What the README shows of the demo is what the demo prints, and what the lab says where it cannot run is of use."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

from rich.console import Console

from lab.demo.scenario import GuestResult, Result, Settings
from lab.demo.screen import Screen
from memhint.objects.units import MIB

ROOT = Path(__file__).parents[3]


def test_the_readme_shows_the_table_that_the_demo_prints() -> None:
    lines = [line.removeprefix("    ") for line in (ROOT / "README.md").read_text().splitlines()]
    first = lines.index("What the guests gave back")
    shown = lines[first : next(at for at in range(first, len(lines)) if lines[at].startswith("└")) + 1]
    guests = [_guest([cell.strip() for cell in line.split("│")[1:-1]]) for line in shown if line.startswith("│")]
    assert len(guests) == Settings().guests
    out = io.StringIO()
    Screen(Console(file=out, width=200), Settings()).summary(Result(guests=guests), [])
    assert [line.rstrip() for line in out.getvalue().splitlines()][: len(shown)] == shown


def _guest(cells: list[str]) -> GuestResult:
    name, assigned, rest, filled, freed, _, _, after, seconds, reported, discarded, claim = cells
    return GuestResult(
        name=name,
        assigned=int(assigned) * MIB,
        resident_idle=int(rest) * MIB,
        resident_before_free=int(filled) * MIB,
        resident_after_free=int(after) * MIB,
        freed=int(freed) * MIB,
        drained_in=float(seconds.removesuffix(" s")),
        reported=int(reported) * MIB,
        discarded=int(discarded) * MIB,
        claim=claim,
    )


def test_a_checkout_without_a_virtualenv_is_told_how_to_make_it(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    shutil.copy(ROOT / "lab" / "lab", tmp_path / "lab")
    bare = tmp_path / "bin" / "python3"  # one without libraries
    bare.parent.mkdir()
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "lab" / "lab", "up"],
        env={"PATH": f"{bare.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"make -C {tmp_path} setup" in done.stderr
