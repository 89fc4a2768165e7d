from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memhint.cli.main import main
from tests.unit.client.fake_server import FakeServer


@dataclass
class Result:
    code: int
    out: str
    err: str


@dataclass
class Desk:
    """`memhint`, asking a server whose answers a test has laid ready."""

    server: FakeServer
    capture: pytest.CaptureFixture[str]

    def run(self, *words: str) -> Result:
        code = main(["--api", self.server.url, *words], sleep=lambda seconds: None)
        out, err = self.capture.readouterr()
        return Result(code, out, err)


@pytest.fixture
def desk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Desk]:
    for name in ("MEMHINT_API", "MEMHINT_TOKEN", "MEMHINT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    server = FakeServer()
    yield Desk(server, capsys)
    server.close()
