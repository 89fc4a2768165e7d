"""The commands of doc/api.md do what the page says."""

from __future__ import annotations

import os
import subprocess

import pytest

from memhint.store import open_store
from tests.functional.api_server import ApiServer, fill_store
from tests.functional.processes import ROOT

LINES = (ROOT / "doc" / "api.md").read_text().splitlines()
COMMANDS = [line.strip() for line in LINES if line.startswith("    curl ")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory):
    place = tmp_path_factory.mktemp("doc")
    url = f"sqlite:///{place}/memhint.db"
    fill_store(url)
    store = open_store(url)
    uuid = store.domains.page(limit=1).items[0].uuid
    store.close()
    server = ApiServer(place, url)
    yield {**os.environ, "API": f"http://127.0.0.1:{server.port}", "TOKEN": server.tokens["admin"], "VM": uuid}
    server.close()


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_works(environment: dict[str, str], command: str) -> None:
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
