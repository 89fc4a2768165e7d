"""The real servers of the functional tier, and a real API with a small fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.api_server import ApiServer, fill_store
from tests.functional.conftest import mariadb, postgres, rabbitmq, url

__all__ = ["mariadb", "postgres", "rabbitmq", "url"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., ApiServer]]:
    """Start one with these options of [api]."""
    running: list[ApiServer] = []

    def begin(**options: str) -> ApiServer:
        database = f"sqlite:///{tmp_path}/memhint.db"
        fill_store(database)
        running.append(ApiServer(tmp_path, database, options))
        return running[-1]

    yield begin
    for one in running:
        one.close()


@pytest.fixture
def server(start: Callable[..., ApiServer]) -> ApiServer:
    """One as it is shipped."""
    return start(rate="50")
