"""What an agent loads: it lives on every host, so what it does not use is not loaded. Counted, not timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MOST = 680  # modules, the standard library's among them; 650 where this was written
_WITHOUT = (
    "alembic",
    "mako",
    "matplotlib",
    "numpy",
    "pika",
    "prometheus_client",
    "pygments",
    "rich",
    "sqlalchemy",
    "webob",
    "zstandard",
    "memhint.api",
    "memhint.cli",
    "memhint.controller",
    "memhint.sim",
    "memhint.store.database",
    "memhint.bus.rabbit_publisher",
)
_OPENED = """
import sys
import memhint.agent.service
from memhint.store.host_store import open_host_store
open_host_store("sqlite:///" + sys.argv[1], host="host-a").close()
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The modules of a process that has what an agent of one host needs, and has made its store."""
    file: Path = tmp_path_factory.mktemp("store") / "memhint.db"
    done = subprocess.run([sys.executable, "-c", _OPENED, str(file)], capture_output=True, text=True, check=True)
    assert file.exists()
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("name", _WITHOUT)
def test_an_agent_of_one_host_does_not_load_what_it_does_not_use(loaded: frozenset[str], name: str) -> None:
    assert not {one for one in loaded if one == name or one.startswith(f"{name}.")}


def test_an_agent_loads_no_more_modules_than_it_did(loaded: frozenset[str]) -> None:
    assert len(loaded) <= MOST


def test_the_command_that_runs_it_brings_no_sqlalchemy_along() -> None:
    code = (
        "import sys; from memhint.cli.main import main; main(['agent', '--help']); "
        "import memhint.agent.service; print('sqlalchemy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
