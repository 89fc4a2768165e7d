from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from memhint.client.client import Client
from memhint.client.session import transport_of
from memhint.client.settings import Settings
from memhint.client.transport import Transport
from tests.unit.client.fake_server import FakeServer


@dataclass
class Naps:
    """How long was slept, without sleeping."""

    taken: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    found = FakeServer()
    yield found
    found.close()


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def transport(server: FakeServer, naps: Naps) -> Transport:
    return transport_of(Settings(server.url, token="s3cret-token", timeout=20), naps)


@pytest.fixture
def client(transport: Transport, naps: Naps) -> Client:
    return Client(transport, naps)
