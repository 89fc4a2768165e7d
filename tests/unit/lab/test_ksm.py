"""KSM is as it was after a run that steered it, also where that run was killed."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from lab import ksm
from lab.process import Process

BEFORE = {"run": "0", "pages_to_scan": "100", "sleep_millisecs": "20", "use_zero_pages": "0"}
STEERED = {"run": "1", "pages_to_scan": "5000", "sleep_millisecs": "20", "use_zero_pages": "1"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ksm.FOLDER).mkdir(parents=True)
    change(tmp_path, BEFORE)
    return tmp_path


def change(root: Path, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        (root / ksm.FOLDER / name).write_text(value)


def left_by(root: Path, owner: Process) -> None:
    (root / "ksm.json").write_text(json.dumps({"pid": owner.pid, "started": owner.started, "ksm": BEFORE}))
    change(root, STEERED)


def test_a_killed_run_is_put_right_by_the_next(root: Path) -> None:
    own = Process.of(os.getpid())
    assert own is not None
    left_by(root, Process(own.pid, own.started - 1))
    with ksm.written_down(root) as before:
        assert before == BEFORE
        assert ksm.read(root) == BEFORE
    assert not (root / "ksm.json").exists()


def test_what_a_living_run_has_set_is_let_be(root: Path) -> None:
    own = Process.of(os.getpid())
    assert own is not None
    left_by(root, own)
    assert not ksm.put_back_left(root)
    with ksm.written_down(root) as before:
        assert before == STEERED
    assert (root / "ksm.json").exists(), "the note is not this body's own"


def test_a_note_that_was_cut_off_is_dropped(root: Path) -> None:
    (root / "ksm.json").write_text('{"pid": 1')
    assert not ksm.put_back_left(root)
    assert not (root / "ksm.json").exists()


def test_the_note_is_there_while_the_body_runs(root: Path) -> None:
    with ksm.written_down(root):
        assert json.loads((root / "ksm.json").read_text())["ksm"] == BEFORE
    assert not (root / "ksm.json").exists()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_body_that_was_interrupted_while_it_put_ksm_back_leaves_the_rest_to_the_end(root: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt), ksm.written_down(root):
        change(root, {**STEERED, "run": "2"})
        interrupted()
    assert ksm.read(root) == BEFORE
    assert not (root / "ksm.json").exists()


def test_what_cannot_be_put_back_is_left_to_the_next_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.suppress(KeyboardInterrupt), ksm.written_down(root):
        change(root, STEERED)
        monkeypatch.setattr(ksm, "write", interrupted)
    assert (root / "ksm.json").exists()


def test_a_kernel_without_ksm_is_no_trouble(tmp_path: Path) -> None:
    with ksm.written_down(tmp_path) as before:
        ksm.write(before, tmp_path)
    assert before == {}
    assert list(tmp_path.iterdir()) == []
