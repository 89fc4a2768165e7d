"""The benches that run KSM, each at its smallest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.smoke import runs

WITH_KSM = ("density", "recycle", "dedup", "next_allocation")


@pytest.mark.parametrize("name", WITH_KSM)
def test_a_bench_runs_at_its_smallest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(name, tmp_path, monkeypatch)
