"""Each bench at its smallest; those that run KSM are in test_benches_with_ksm.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness.registry import NAMES
from tests.lab.smoke import runs
from tests.lab.test_benches_with_ksm import WITH_KSM


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_KSM])
def test_a_bench_runs_at_its_smallest(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(name, tmp_path, monkeypatch)
