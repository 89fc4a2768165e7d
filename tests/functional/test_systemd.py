"""The units are ones that systemd takes without a word, and are well closed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "etc" / "systemd").glob("*.service"))


def unit(path: Path, place: Path) -> Path:
    """The same with a program that is there."""
    copy = place / path.name
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(), flags=re.MULTILINE))
    return copy


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_has_nothing_to_say_of_it(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit(path, tmp_path))], capture_output=True, text=True, check=False
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if path.name in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.parametrize("name", ["memhint-api.service", "memhint-controller.service"])
def test_what_needs_no_privilege_has_none(name: str, tmp_path: Path) -> None:
    (path,) = (one for one in UNITS if one.name == name)
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", str(unit(path, tmp_path))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
