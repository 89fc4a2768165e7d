"""khugepaged is left as it was found, whatever happens meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import khugepaged
from bench.harness.precondition import PreconditionFailed

FILE = "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"


def test_it_is_put_back_after_a_failure(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.parent.mkdir(parents=True)
    file.write_text("511\n")

    def fail() -> None:
        assert file.read_text() == "64\n"
        raise KeyError

    with pytest.raises(KeyError), khugepaged.sparing(root=tmp_path):
        fail()
    assert file.read_text() == "511\n"


def test_a_kernel_without_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(PreconditionFailed, match="no khugepaged"), khugepaged.sparing(root=tmp_path):
        pass
