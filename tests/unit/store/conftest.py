from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memhint.store import Store, open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lib/memhint.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, host="host-a")
    yield opened
    opened.close()
