"""Real servers, each started once and only if a test asks for it. One that does not start fails its tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from lab.servers.mariadb import MariaDB
from lab.servers.postgres import Postgres
from tests.functional.servers.rabbitmq import RabbitMQ
from tests.functional.servers.running import running

DATABASES = ("sqlite", "postgresql", "mariadb")
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running(Postgres()) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    with running(MariaDB()) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    with running(RabbitMQ()) as server:
        yield server


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path) -> Iterator[str]:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/lib/memhint.db"
        return
    server = request.getfixturevalue("postgres" if request.param == "postgresql" else "mariadb")
    name = f"memhint_{next(_NUMBERS)}"
    yield server.create(name)
    server.drop(name)
