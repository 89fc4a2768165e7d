"""Ports are taken in a directory that nobody else has a hand in."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import StateError
from lab.servers import ports


@pytest.fixture
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the directory of locks is made."""
    monkeypatch.setattr(ports, "_CLAIMS", tmp_path)
    monkeypatch.setattr(ports, "_given", {})
    return tmp_path / f"memhint-ports-{os.geteuid()}"


def test_a_port_is_taken_once_and_given_again_when_its_process_has_ended(claims: Path) -> None:
    assert ports._claimed(20_000)
    given = dict(ports._given)
    assert not ports._claimed(20_000)  # as another process would ask
    for lock in given.values():
        lock.close()
    ports._given.clear()
    assert ports._claimed(20_000)


def test_the_directory_and_its_files_are_this_users_alone(claims: Path) -> None:
    before = os.umask(0)
    try:
        (port,) = ports.free_ports(1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(claims.stat().st_mode) == 0o700
    assert stat.S_IMODE((claims / str(port)).stat().st_mode) == 0o600


def open_to_others(claims: Path) -> None:
    claims.mkdir()
    claims.chmod(0o777)


def a_link(claims: Path) -> None:
    (claims.parent / "elsewhere").mkdir(mode=0o700)
    claims.symlink_to("elsewhere")


@pytest.mark.parametrize("plant", [open_to_others, a_link])
def test_what_others_may_have_made_is_refused(claims: Path, plant: Callable[[Path], None]) -> None:
    plant(claims)
    with pytest.raises(StateError, match="not a directory of this user's alone"):
        ports.free_ports(1)


def test_anothers_directory_is_refused(claims: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = claims.with_name("memhint-ports-12345")
    mine.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(StateError, match="remove it"):
        ports.free_ports(1)


def test_a_file_is_refused(claims: Path) -> None:
    claims.touch(mode=0o600)
    with pytest.raises(StateError, match="remove it"):
        ports.free_ports(1)


def test_what_a_link_points_to_is_not_touched(claims: Path) -> None:
    precious = claims.parent / "precious"
    precious.write_text("kept")
    claims.mkdir(mode=0o700)
    (claims / "20000").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"):
        ports._claimed(20_000)
    assert precious.read_text() == "kept"
