"""The real servers of the functional tier, and a real API with a small fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
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


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """The same, for tests of single requests, which leave it as it was: a start takes longer than all of them."""
    place = tmp_path_factory.mktemp("lasting")
    database = f"sqlite:///{place}/memhint.db"
    fill_store(database)
    with closing(ApiServer(place, database, {"rate": "50"})) as server:
        yield server
