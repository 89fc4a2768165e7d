"""Only a host that goes down in order says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from memhint.kernel import host_stops


@pytest.mark.parametrize(("told", "stops"), [("stopping", True), ("running", False), ("degraded", False), ("", False)])
def test_systemd_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, stops: bool) -> None:
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\n[ $1 = is-system-running ] && echo {told}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert host_stops.host_stops() is stops


def test_where_it_cannot_be_asked_the_host_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not host_stops.host_stops()


def test_nobody_waits_for_one_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(host_stops, "_PATIENCE", 0.1)
    assert not host_stops.host_stops()
