"""`lab/lab in-debian`: what it takes, and what it refuses before anything is made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab import cli, debian_machine, swap
from lab.errors import LabError, StateError


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What was asked for; nothing is made, and every command ends with 7."""
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(cli, "make_machine", lambda *words: asked.append(("make", *words[:2])))
    monkeypatch.setattr(cli, "run_in_machine", lambda *words: asked.append(("run", *words)) or 7)
    monkeypatch.setattr(cli, "remove_machine", lambda folder: asked.append(("remove", folder)))
    return asked


def test_a_release_has_a_number_and_a_name() -> None:
    assert [debian_machine.release_of(text) for text in ("12", "13", "trixie")] == ["bookworm", "trixie", "trixie"]


def test_the_command_is_run_with_its_options_and_the_machine_removed(
    calls: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cli, "scratch", lambda name, parent: tmp_path)
    assert cli.main(["in-debian", "13", "make", "-k", "demo", "PATCHED=0"]) == 7
    machine = tmp_path / "machine"
    assert calls == [
        ("make", machine, "trixie"),
        ("run", machine, ["make", "-k", "demo", "PATCHED=0"]),
        ("remove", tmp_path),
    ]


def test_a_machine_that_is_kept_is_not_removed(calls: list[tuple[object, ...]], tmp_path: Path) -> None:
    assert cli.main(["in-debian", "--keep", str(tmp_path), "12", "make", "setup"]) == 7
    assert calls == [("make", tmp_path, "bookworm"), ("run", tmp_path, ["make", "setup"])]


@pytest.mark.parametrize("words", [["13"], ["--keep", "here", "13"]])
def test_without_a_command_nothing_is_made(
    words: list[str], calls: list[tuple[object, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["in-debian", *words]) == 1
    assert "lab/lab in-debian 13 make demo" in capsys.readouterr().err
    assert calls == []


@pytest.mark.parametrize("release", ["11", "noble", "", "13.1"])
def test_a_release_that_the_lab_does_not_know_is_refused(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["in-debian", release, "make", "demo"])
    assert ended.value.code == 2
    assert "12 (bookworm), 13 (trixie)" in capsys.readouterr().err


def test_a_directory_with_something_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_machine, "require_root", lambda: None)
    (tmp_path / "precious").write_text("x")
    with pytest.raises(StateError, match="something else"):
        debian_machine.make_machine(tmp_path, "trixie", tmp_path, print)
    (tmp_path / "release").write_text("bookworm")
    with pytest.raises(StateError, match="bookworm"):
        debian_machine.make_machine(tmp_path, "trixie", tmp_path, print)
    assert (tmp_path / "precious").read_text() == "x"


def test_the_clone_is_made_anew_of_what_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_machine, "require_root", lambda: None)
    checkout, machine = tmp_path / "checkout", tmp_path / "machine"
    for words in (
        ["init", "-q", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"],
    ):
        checkout.mkdir(exist_ok=True)
        subprocess.run(["git", *words], cwd=checkout, check=True)
    (checkout / "uncommitted").touch()
    clone = machine / "root" / debian_machine.CLONE
    clone.mkdir(parents=True)
    (clone / "of the last command").touch()
    (machine / "release").write_text("trixie")
    debian_machine.make_machine(machine, "trixie", checkout, print)
    assert [path.name for path in clone.iterdir()] == [".git"]


def test_what_is_mounted_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    mounts = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self: f"proc {tmp_path}/proc proc rw 0 0\n" if self.name == "mounts" else mounts(self)
    )
    with pytest.raises(LabError, match="is mounted"):
        debian_machine.remove_machine(tmp_path)
    assert (tmp_path / "file").exists()


def test_swap_that_a_killed_command_left_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, others = tmp_path / "machine/root/swap", tmp_path / "machine-2/root/swap"
    taken: list[Path] = []
    monkeypatch.setattr(swap, "active", lambda: [str(ours), str(others), "/dev/sda2"])
    monkeypatch.setattr(swap, "remove", taken.append)
    swap.remove_below(tmp_path / "machine")
    assert taken == [ours]
