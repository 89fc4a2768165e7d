"""Waiting for a guest counts the time that it had, and what it has read is held against what it was sent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import patience
from lab.kernel_guest import Corrupted, Guest
from lab.patience import NANO, Patience

PID = 7


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock: its one item is the time."""
    clock = [1000.0]
    monkeypatch.setattr(patience.time, "monotonic", lambda: clock[0])
    return clock


def ready(proc: Path, **threads: float) -> None:
    """Say how many seconds each thread was ready and did not run."""
    for name, waited in threads.items():
        task = proc / f"{PID}/task/{name}"
        task.mkdir(parents=True, exist_ok=True)
        (task / "schedstat").write_text(f"12345 {int(waited * NANO)} 77\n")


def test_alone_on_a_machine_it_is_the_wall_clock(tmp_path: Path, now: list[float]) -> None:
    ready(tmp_path, main=3.0, cpu0=5.0)
    limit = Patience(180.0, PID, tmp_path)
    now[0] += 100
    assert limit.left() == pytest.approx(80.0)
    now[0] += 80
    assert limit.left() == 0.0


def test_what_its_threads_waited_for_a_processor_does_not_count(tmp_path: Path, now: list[float]) -> None:
    ready(tmp_path, main=3.0, cpu0=5.0)
    limit = Patience(180.0, PID, tmp_path)
    now[0] += 1000
    ready(tmp_path, main=13.0, cpu0=905.0, late=40.0)
    assert limit.left() == pytest.approx(180.0 - 100.0)
    now[0] += 1000
    assert limit.left() == 0.0


def test_where_the_kernel_does_not_tell_it_is_the_wall_clock(tmp_path: Path, now: list[float]) -> None:
    limit = Patience(10.0, PID, tmp_path)
    now[0] += 4
    assert limit.left() == pytest.approx(6.0)


def test_this_kernel_tells() -> None:
    assert Patience(10.0, os.getpid())._waited()


class Shell:
    """A guest's end of the line."""

    def __init__(self, answers: list[str]) -> None:
        self.sent: list[str] = []
        self._answers: Iterator[str] = iter(answers)

    def write(self, text: str) -> None:
        self.sent.append(text)

    def read(self) -> str:
        return next(self._answers)


def guest(*answers: str) -> Guest:
    """A guest that says this, and nothing else."""
    made = Guest.__new__(Guest)
    made.shell = Shell(list(answers))  # type: ignore[assignment]
    return made


def test_what_a_line_says_is_what_comes_after_it_was_read() -> None:
    talking = guest("a job that runs beside it", "--- echo 1; echo 2", "1", "2", "=== 3")
    assert talking.try_run("echo 1; echo 2") == (3, "1\n2")


@pytest.mark.parametrize("read", ["echo", "echo 12346789", "echo 123456780", ""])
def test_a_guest_that_has_read_something_else_has_a_spoilt_memory(read: str) -> None:
    with pytest.raises(Corrupted, match="has read"):
        guest(f"--- {read}", "", "=== 0").try_run("echo 123456789")
