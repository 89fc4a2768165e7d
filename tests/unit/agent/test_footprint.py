"""What an agent loads: it lives on every host, so what it does not use is not loaded. Counted, not timed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MOST = 630  # modules, the standard library's among them; 623 where this was written
_WITHOUT = (
    "alembic",
    "cliff",
    "email",
    "http",
    "idna",
    "importlib.metadata",
    "mako",
    "matplotlib",
    "netaddr",
    "numpy",
    "pika",
    "prettytable",
    "prometheus_client",
    "pygments",
    "rfc3986",
    "rich",
    "sqlalchemy",
    "ssl",
    "stevedore",
    "webob",
    "zipfile",
    "zstandard",
    "memhint.api",
    "memhint.cli.app",
    "memhint.controller",
    "memhint.sim",
    "memhint.store.database",
    "memhint.bus.rabbit_publisher",
)
_PUBLISHED = """
import os, signal, sys
from memhint.bus.inprocess import InProcessBus
publish = InProcessBus.publish
def tell(self, report):
    publish(self, report)
    from memhint.agent.unused import Unloaded
    with open(sys.argv[2], "w") as told:
        print(*(name for name, module in sys.modules.items() if type(module) is not Unloaded), file=told)
    os.kill(os.getpid(), signal.SIGTERM)
InProcessBus.publish = tell
from memhint.cli.main import main
sys.exit(main(["agent", "--config-file", sys.argv[1]]))
"""
_CONFIG = """
[DEFAULT]
host_name = footprint-{pid}
[store]
url = sqlite:///{folder}/memhint.db
[virt]
uri = test:///default
run_dir = {folder}
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The modules of an agent of one host that has published its first report."""
    folder: Path = tmp_path_factory.mktemp("footprint")
    file = folder / "memhint.conf"
    file.write_text(_CONFIG.format(folder=folder, pid=os.getpid()))
    told = folder / "modules"
    words = [sys.executable, "-c", _PUBLISHED, str(file), str(told)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return frozenset(told.read_text().split())


def test_an_agent_has_loaded_what_it_is_made_of(loaded: frozenset[str]) -> None:
    assert {"libvirt", "memhint.agent.cycle", "memhint.store.light.reports", "oslo_config.cfg"} <= loaded


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
