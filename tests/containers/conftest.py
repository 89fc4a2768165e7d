"""Images that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.containers.images import build, build_standins, missing


@pytest.fixture(scope="session")
def images() -> None:
    if reason := missing():
        pytest.skip(reason)
    build()


@pytest.fixture(scope="session")
def standins(images: None) -> None:
    build_standins()
