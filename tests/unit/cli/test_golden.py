"""What `memhint` prints, byte for byte, as tables and as JSON: of this host's store, and of the fleet's API."""

from __future__ import annotations

import getpass
import shlex
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from memhint.cli.main import main
from memhint.store import open_store
from tests import golden
from tests.golden.fleet import FLEET, FULL_HOST, MOMENT, filled_store, full_report, hold_still
from tests.unit.api.site import Site

KEPT = Path(golden.__file__).parent / "cli"
PRESSED = FLEET.name(11)
LOCAL = {
    "host": ("status", "status --json", "plan", "plan --json", "explain", "explain --json", "explain web-1"),
    "domains": ("domains", "domains --long", "domains -f csv", "domains web-1", "domains web-1 --json", "domains none"),
    "set": (
        "set web-1 dedup=on balloon=allow --dry-run",
        "set web-1 dedup=on --dry-run --json",
        "set web-1 dedup=on --no-wait",
        "set web-1 dedup=maybe",
        "set web-1 dedup",
        "set none dedup=on",
    ),
    "reclaim": (
        "reclaim web-1 --no-wait",
        "reclaim web-1 --no-wait --bytes 64MiB --hold 1m --json",
        "reclaim web-1 --percent 50 --no-wait --dry-run",
        "reclaim web-1 --bytes 1",
        "reclaim web-1",
    ),
}
FLEETS = {
    "hosts": (
        "hosts",
        "hosts --long --sort headroom:desc --limit 2",
        "hosts --limit 1 --json",
        f"host show {FULL_HOST}",
        f"host show {PRESSED} --json",
        f"host history {PRESSED} --since 2023-01-01",
        "host show none",
    ),
    "vms": (
        f"vms --host {FULL_HOST}",
        f"vms --host {FULL_HOST} --long",
        f"vms --host {FULL_HOST} -f csv",
        "vm show web-1",
        "vm show web-1 --json",
        "vm show none",
    ),
    "policy": (
        "policy show web-1",
        "policy set web-1 dedup=on balloon=allow --dry-run",
        "policy set web-1 dedup=on --dry-run --json",
        "policy set web-1 dedup=on",
        "policy set web-1 dedup=on",
        "policy set web-1 dedup=maybe",
        "policy clear web-1",
    ),
    "reclaims": (
        "reclaim create web-1 --no-wait",
        "reclaim create web-1 --no-wait --bytes 64MiB --hold 1m --json",
        "reclaim create web-1 --bytes 1",
        "reclaim list",
        "reclaim interrupt none",
    ),
    "fleet": (
        f"place --memory 4GiB --host {FULL_HOST} --host {PRESSED}",
        f"place --memory 4GiB --host {FULL_HOST} --json",
        "events --since 2023-01-01 --limit 3",
        "refusals --limit 3",
        "history --since 2023-01-01 --step 6h",
        "promises --since 2023-01-01",
    ),
}


class Quiet(WSGIRequestHandler):
    """A server that writes no log: what a command prints would have it in between."""

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


class Prompt:
    """What was typed, one command after the other, and what came of each."""

    def __init__(self, options: list[str], capture: pytest.CaptureFixture[str]) -> None:
        self._options = options
        self._capture = capture
        self._now = MOMENT

    def kept(self, path: Path, lines: tuple[str, ...]) -> None:
        golden.check(path, "\n".join(map(self._typed, lines)))

    def _typed(self, line: str) -> str:
        words = [*self._options, *shlex.split(line)]
        code = main(words, clock=lambda: self._now, monotonic=lambda: self._now - MOMENT, sleep=self._sleep)
        out, err = self._capture.readouterr()
        return f"$ memhint {line}\n{out}{err}[{code}]\n"

    def _sleep(self, seconds: float) -> None:
        self._now += seconds


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    hold_still(monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    for name in ("SUDO_USER", "MEMHINT_API", "MEMHINT_TOKEN", "MEMHINT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def host(still: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Prompt:
    url = f"sqlite:///{tmp_path}/memhint.db"
    config = tmp_path / "memhint.conf"
    config.write_text(f"[DEFAULT]\nhost_name = {FULL_HOST}\n[store]\nurl = {url}\n")
    store = open_store(url, host=FULL_HOST)
    store.reports.save(full_report())
    store.close()
    return Prompt(["--config-file", str(config)], capsys)


@pytest.mark.parametrize("name", LOCAL)
def test_of_this_host(host: Prompt, name: str) -> None:
    host.kept(KEPT / f"host-{name}.txt", LOCAL[name])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_store(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def fleet(
    still: None, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Prompt]:
    shutil.copy(filled, tmp_path / "memhint.db")
    site = Site(f"sqlite:///{tmp_path}/memhint.db", tmp_path, {}, clock=lambda: MOMENT)
    server = make_server("127.0.0.1", 0, site.application, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("MEMHINT_TOKEN", site.tokens["admin"])
    try:
        yield Prompt(["--api", f"http://127.0.0.1:{server.port}"], capsys)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        site.close()


@pytest.mark.parametrize("name", FLEETS)
def test_of_the_fleet(fleet: Prompt, name: str) -> None:
    fleet.kept(KEPT / f"fleet-{name}.txt", FLEETS[name])
