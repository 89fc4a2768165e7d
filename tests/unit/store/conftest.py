from __future__ import annotations

from collections.abc import Iterator

import pytest

from memhint.store import Store, open_store


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = open_store(url, host="host-a")
    yield opened
    opened.close()
