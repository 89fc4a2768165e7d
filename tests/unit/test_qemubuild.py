"""What QEMU and the guest agent are built with: whether it is there, and can be run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.programs import ROOT, load


@pytest.fixture(scope="module")
def qemubuild() -> ModuleType:
    return load(ROOT / "qemu" / "qemubuild.py")


def _program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_meson_of_a_python_that_is_gone_or_another_one_is_made_anew(qemubuild: ModuleType, tmp_path: Path) -> None:
    _program(tmp_path / "bin/meson", "exit 0")
    _program(tmp_path / "bin/python3", "exit 0")
    assert not qemubuild.works(tmp_path)  # no RECORD: pip was interrupted
    for name in ("meson-1.5.0", "pycotap-1.3"):
        record = tmp_path / "lib/python3.11/site-packages" / f"{name}.dist-info" / "RECORD"
        record.parent.mkdir(parents=True)
        record.touch()
    assert qemubuild.works(tmp_path)
    _program(tmp_path / "bin/python3", f"exec {sys.executable} -c 'import no_such_module'")
    assert not qemubuild.works(tmp_path)


@pytest.mark.parametrize(("said", "missing"), [("installed", []), ("config-files", ["gcc"])])
def test_a_package_on_hold_is_installed(
    qemubuild: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, missing: list[str]
) -> None:
    _program(
        tmp_path / "dpkg-query", f'case "$*" in *db:Status-Status*) printf {said} ;; *) printf "hold ok x" ;; esac'
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert qemubuild.missing(["gcc"]) == missing


def test_a_python_that_is_not_there_any_more_runs_nothing(qemubuild: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "lib/python3.11/site-packages/meson-1.dist-info").mkdir(parents=True)
    (tmp_path / "lib/python3.11/site-packages/meson-1.dist-info/RECORD").touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(tmp_path / "gone")
    assert not qemubuild.works(tmp_path)
