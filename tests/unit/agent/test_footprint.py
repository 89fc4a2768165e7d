"""What an agent loads: it lives on every host, so what it does not use is not loaded. Counted, not timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MOST = 790  # modules, the standard library's among them; 762 where this was written
_WITHOUT = (
    "alembic",
    "mako",
    "matplotlib",
    "numpy",
    "pika",
    "prometheus_client",
    "pygments",
    "rich",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.orm",
    "webob",
    "zstandard",
    "memhint.api",
    "memhint.cli",
    "memhint.controller",
    "memhint.sim",
    "memhint.bus.rabbit_publisher",
)
_OPENED = """
import sys
import memhint.agent.service
from memhint.store.database import open_store
open_store("sqlite:///" + sys.argv[1], lean=True).close()
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
