"""`lab/lab down` removes labs, also those of older versions, and no directory that is none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import leftovers, state, teardown
from lab.cli import main
from lab.errors import StateError
from lab.openstack.cli import main as openstack
from lab.state import LabRecord, StateFile


@pytest.fixture(autouse=True)
def _files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process, cgroup or setting of this machine is looked at."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(teardown, "_cgroups_of", lambda lab: [])
    for name in ("_processes", "_folders"):
        monkeypatch.setattr(leftovers, name, lambda: iter(()))
    monkeypatch.setattr(leftovers, "_cgroups", lambda labs: iter(()))
    monkeypatch.setattr(leftovers, "put_back_left", lambda: False)


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of labs, with somebody's directories in it."""
    for name in ("lab", "openstack", "alice", "Bob", "locked", "alike"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("mine")
    (tmp_path / "Bob/lock").touch()
    (tmp_path / "locked/lock").write_text("42\n")  # as many programs write it: of whom it is
    (tmp_path / "alike/lock").touch()
    (tmp_path / "alike/state.json").write_text('{"name": "a game"}')
    monkeypatch.setenv("MEMHINT_LAB_DIR", str(tmp_path))
    return tmp_path


def write(directory: Path) -> None:
    """What a lab writes down first."""
    StateFile(directory).save(LabRecord(directory.name, "tcg", True, 1, 0, None, 0))


def older(directory: Path) -> None:
    """A lab of a version whose locks had no word in them."""
    directory.mkdir()
    (directory / "lock").touch()
    (directory / "keeper.log").touch()
    write(directory)
    (directory / "host-1").mkdir()


def older_not_recorded(directory: Path) -> None:
    """The same, killed before it wrote anything down."""
    directory.mkdir()
    (directory / "lock").touch()
    (directory / "keeper.log").touch()


def newer(directory: Path) -> None:
    """A lab of this version, whose record is damaged."""
    state.claim(directory)
    (directory / "state.json").write_text("{")
    (directory / "host-1").mkdir()


def names(labs: Path) -> set[str]:
    """What still has all that it had."""
    return {path.parent.name for path in labs.glob("*/precious")}


@pytest.mark.parametrize(
    "words", [["down"], ["down", "--all"], *(["down", "--name", one] for one in ("alike", "locked"))]
)
def test_what_is_no_lab_stays(labs: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    before = names(labs)
    files = sorted(labs.rglob("*"))
    assert main(words) == 0
    assert names(labs) == before
    assert sorted(labs.rglob("*")) == files
    assert "ended" not in capsys.readouterr().out


def test_what_is_no_stack_stays(labs: Path) -> None:
    assert openstack(["down"]) == 0
    assert "openstack" in names(labs)


@pytest.mark.parametrize("make", [older, older_not_recorded, newer])
@pytest.mark.parametrize("words", [["--all"], ["--name", "mine"]])
def test_a_lab_is_removed(
    labs: Path, make: Callable[[Path], None], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = names(labs)
    make(labs / "mine")
    assert main(["down", *words]) == 0
    assert capsys.readouterr().out == "lab mine: ended\n"
    assert not (labs / "mine").exists()
    assert names(labs) == before


def test_a_link_is_not_followed(labs: Path) -> None:
    newer(labs / "elsewhere")
    (labs / "mine").symlink_to("elsewhere")
    assert state.existing(labs) == ["elsewhere"]
    assert not teardown.teardown(labs / "mine")
    assert (labs / "elsewhere/lock").exists()


def test_a_removal_that_was_killed_is_finished_the_next_time(labs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order files go, what tells that they are a lab's goes last."""
    older(labs / "mine")
    (labs / "mine/last").mkdir()

    def killed(path: Path) -> None:
        if path.name == "last":
            raise KeyboardInterrupt
        real(path)

    real = shutil.rmtree
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            teardown.teardown(labs / "mine")
    (labs / "mine/state.json").unlink(missing_ok=True)
    assert state.existing(labs) == ["mine"]
    assert teardown.teardown(labs / "mine")
    assert not (labs / "mine").exists()


def test_a_name_is_taken_where_nothing_is_or_a_start_was_killed_at_once(labs: Path) -> None:
    (labs / "empty").mkdir()
    for name in ("empty", "fresh"):
        state.claim(labs / name)
        assert state.is_lab(labs / name)
        with pytest.raises(StateError, match=f"there is a lab {name} already"):
            state.claim(labs / name)


@pytest.mark.parametrize("name", ["alice", "alike", "locked"])
def test_a_name_is_not_taken_where_something_else_is(labs: Path, name: str) -> None:
    files = sorted(labs.rglob("*"))
    with pytest.raises(StateError, match="something else than a lab"):
        state.claim(labs / name)
    assert sorted(labs.rglob("*")) == files


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_no_lab_is_made_where_another_user_was_first(tmp_path: Path) -> None:
    anothers = tmp_path / "open" / "labs"
    anothers.mkdir(parents=True)
    os.chown(anothers, 12345, -1)
    state.claim(anothers / "mine")  # of a place that root has chosen, where nobody else makes directories
    anothers.parent.chmod(0o1777)
    with pytest.raises(StateError, match="another user's, who may change what is kept there"):
        state.claim(anothers / "next")
    assert state.existing(anothers) == ["mine"]
    os.chown(anothers, 0, -1)
    state.claim(anothers / "next")


def test_only_swap_of_a_lab_is_taken_away(labs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state.claim(labs / "mine")
    files = [labs / one for one in ("swapfile", "swap", "alice/swap", "mine/swap")]
    for file in files:
        file.touch()
    monkeypatch.setattr(leftovers.swap, "active", lambda: [str(file) for file in files])
    taken: list[Path] = []
    monkeypatch.setattr(leftovers.swap, "remove", taken.append)
    leftovers.sweep(labs)
    assert taken == [labs / "mine/swap"]
