"""Images that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.containers.images import build, build_standins, missing


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def images() -> None:
    build()


@pytest.fixture(scope="session")
def standins() -> None:
    build_standins()
