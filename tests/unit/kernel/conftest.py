from __future__ import annotations

from pathlib import Path

import pytest

from .fake_root import FakeRoot


@pytest.fixture
def fake(tmp_path: Path) -> FakeRoot:
    return FakeRoot(tmp_path)
