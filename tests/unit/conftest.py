"""What unit tests of several packages share."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from memhint.store import Store, open_store


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/lib/memhint.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A fleet's."""
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def logs_as_before() -> Iterator[None]:
    """Whoever sets up a service's log changes the handlers of this process, and quiets the libraries that it uses."""
    root = logging.getLogger()
    handlers, level, levels = list(root.handlers), root.level, _levels()
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name in _levels():
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))


def _levels() -> dict[str, int]:
    """Of every logger, as it was set."""
    known = logging.getLogger().manager.loggerDict
    return {name: one.level for name, one in known.items() if isinstance(one, logging.Logger)}
