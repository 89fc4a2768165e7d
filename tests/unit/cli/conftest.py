from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memhint.cli.main import main
from memhint.store import Store, open_store
from tests.unit.builders import NOW


@dataclass
class Result:
    code: int
    out: str
    err: str


@dataclass
class Bench:
    """A store, a configuration that names it, and clocks that only move when they are told to or slept on."""

    store: Store
    config: Path
    capture: pytest.CaptureFixture[str]
    now: float = NOW + 4
    waited: float = 0.0
    on_sleep: Callable[[], None] = lambda: None

    def run(self, *words: str) -> Result:
        argv = ["--config-file", str(self.config), *words]
        code = main(argv, clock=lambda: self.now, monotonic=lambda: self.waited, sleep=self._sleep)
        out, err = self.capture.readouterr()
        return Result(code, out, err)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self.waited += seconds
        self.on_sleep()


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Bench]:
    url = f"sqlite:///{tmp_path}/memhint.db"
    config = tmp_path / "memhint.conf"
    config.write_text(f"[DEFAULT]\nhost_name = host-a\n[store]\nurl = {url}\n")
    store = open_store(url, host="host-a")
    yield Bench(store, config, capsys)
    store.close()
