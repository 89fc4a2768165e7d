"""Each service has a log of its own: on one machine they are different users, and none may write another's file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from oslo_config import cfg

from tests.unit.cli.conftest import Bench

pytestmark = pytest.mark.usefixtures("logs_as_before")

RUNS = {
    "agent": "memhint.agent.service.run",
    "controller": "memhint.controller.service.run",
    "api": "memhint.api.server.run",
}


@pytest.fixture(params=RUNS)
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The command of a service that logs one line and ends."""

    def run(conf: cfg.ConfigOpts, log_file: str | None = None) -> int:
        logging.getLogger("memhint.test").warning("it runs")
        return 0

    monkeypatch.setattr(RUNS[request.param], run)
    return str(request.param)


def _logs(bench: Bench, text: str) -> None:
    """The configuration says so."""
    bench.config.write_text(bench.config.read_text().replace("[DEFAULT]\n", f"[DEFAULT]\n{text}\n"))


def test_each_logs_into_its_own_file(bench: Bench, service: str, tmp_path: Path) -> None:
    _logs(bench, f"log_dir = {tmp_path}")
    assert bench.run(service).code == 0
    assert [path.name for path in tmp_path.glob("*.log")] == [f"memhint-{service}.log"]
    assert "it runs" in (tmp_path / f"memhint-{service}.log").read_text()


def test_what_the_command_line_names_wins(bench: Bench, service: str, tmp_path: Path) -> None:
    _logs(bench, f"log_dir = {tmp_path}\nlog_file = configured.log")
    named = tmp_path / "elsewhere" / "named.log"
    named.parent.mkdir()
    assert bench.run("--log-file", str(named), service).code == 0
    assert "it runs" in named.read_text()
    assert list(tmp_path.glob("*.log")) == []
