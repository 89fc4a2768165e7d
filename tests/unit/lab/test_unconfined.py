"""Programs leave AppArmor's profiles where there are any, and are started as they are elsewhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.unconfined import unconfined


@pytest.mark.parametrize("said", [None, "N\n", ""])
def test_where_apparmor_is_not_enforced_nothing_is_put_before(tmp_path: Path, said: str | None) -> None:
    if said is not None:
        (tmp_path / "enabled").write_text(said)
    assert unconfined(["libvirtd", "-f"], tmp_path / "enabled") == ["libvirtd", "-f"]


def test_the_same_process_becomes_the_program_also_where_no_profile_can_be_left(tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text("Y\n")
    words = unconfined(["/bin/sh", "-c", 'echo "$$ $1"', "sh", "a word"], tmp_path / "enabled")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.read() == f"{process.pid} a word\n"
    assert process.returncode == 0
