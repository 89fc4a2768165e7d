from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memhint.api.handlers import dashboard
from tests.unit.api.site import Site, fill_template


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a small fleet in it, made once."""
    path = tmp_path_factory.mktemp("api") / "memhint.db"
    fill_template(f"sqlite:///{path}")
    return path


@pytest.fixture
def make_site(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []
    files = tmp_path / "static"
    files.mkdir()
    (files / "index.html").write_text("<!doctype html><title>memhint</title>")
    (tmp_path / "secret").write_text("no file of the dashboard")
    monkeypatch.setattr(dashboard, "ROOT", files)

    def make(clock: Callable[[], float] = time.time, **options: str) -> Site:
        place = tmp_path / f"site-{len(made)}"
        place.mkdir()
        shutil.copy(template, place / "memhint.db")
        made.append(Site(f"sqlite:///{place}/memhint.db", place, options, clock))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()
