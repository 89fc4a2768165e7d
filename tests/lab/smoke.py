"""A bench at its smallest, so that none rots: it runs to its end and measures what it says that it measures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.harness import plot, result
from bench.harness.precondition import ANYWAY
from bench.harness.registry import load


def runs(name: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run it, and look at what it wrote."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Other tests have guests meanwhile. What a smoke counts does not depend on that; the rest of it is not used.
        patch.setenv(ANYWAY, "1")
    # 1 is a target that was missed; most figures of a smoke need not meet any
    status = main([name, "--scale", "smoke", "--results", str(folder)])
    assert status in (0, 1)
    found = result.read(folder / f"{name}.json")
    assert status == 0 or not load(name).exact, str(found)
    assert found.tables
    for table in found.tables:
        assert table.arms, table.title
        for column in table.columns:
            assert any(arm.figures.get(column.key) is not None for arm in table.arms), (table.title, column.label)
    assert found.targets
    assert plot.draw(found, folder)
