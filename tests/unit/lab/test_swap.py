"""Swap files: made where there is room for them, and never half of one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab import swap
from lab.errors import SwapError
from lab.sizes import GIB, MIB

FULL = "allocating swap: fallocate ended with 1: fallocate: fallocate failed: No space left on device"
NOT_HERE = "allocating swap: fallocate ended with 1: fallocate: fallocate failed: Operation not supported"


class Programs:
    """In place of the programs that are called: each does nothing, or fails as it is told."""

    def __init__(self, **fails: str) -> None:
        self.fails = fails
        self.called: list[str] = []

    def __call__(self, argv: Sequence[str], what: str, error: type[Exception]) -> str:
        self.called.append(argv[0])
        if argv[0] in self.fails:
            raise error(self.fails[argv[0]])
        return ""


def programs(monkeypatch: pytest.MonkeyPatch, free: int = 2 * GIB, **fails: str) -> Programs:
    one = Programs(**fails)
    monkeypatch.setattr(swap, "run", one)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(0, 0, free))
    return one


def test_the_file_is_reserved_and_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = programs(monkeypatch).called
    swap.add(tmp_path / "swap", GIB)
    assert called == ["fallocate", "mkswap", "swapon"]
    assert (tmp_path / "swap").stat().st_mode & 0o777 == 0o600


def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = programs(monkeypatch, free=GIB + swap.LEFT - 1).called
    with pytest.raises(SwapError, match="set MEMHINT_LAB_DIR to a directory with more"):
        swap.add(tmp_path / "swap", GIB)
    assert (called, list(tmp_path.iterdir())) == ([], [])


def test_a_disk_that_has_become_full_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = programs(monkeypatch, fallocate=FULL).called
    with pytest.raises(SwapError, match="No space left"):
        swap.add(tmp_path / "swap", GIB)
    assert (called, list(tmp_path.iterdir())) == (["fallocate"], [])


def test_it_is_written_where_nothing_can_be_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = programs(monkeypatch, fallocate=NOT_HERE).called
    swap.add(tmp_path / "swap", 64 * MIB)
    assert called == ["fallocate", "dd", "mkswap", "swapon"]


@pytest.mark.parametrize("program", ["dd", "mkswap", "swapon"])
def test_no_file_is_left_of_one_that_fails(tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(monkeypatch, fallocate=NOT_HERE, **{program: "it failed"})
    with pytest.raises(SwapError, match="it failed"):
        swap.add(tmp_path / "swap", GIB)
    assert list(tmp_path.iterdir()) == []


def test_fallocate_says_that_it_cannot_as_it_is_understood(tmp_path: Path) -> None:
    """By a file system that cannot: /proc has files, and reserves nothing."""
    with pytest.raises(SwapError) as told:
        swap.run(["fallocate", "-l", "4096", "/proc/self/comm"], "allocating swap", SwapError)
    assert any(text in str(told.value) for text in swap._NOT_HERE)
