"""The Ansible role, as far as it can be told without a machine to change: its syntax, its files, its template."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memhint.conf import load
from tests.functional.processes import ROOT

ANSIBLE = ROOT / "etc" / "ansible"
ROLE = ANSIBLE / "roles" / "memhint"
VERSION = "ansible-core>=2.16,<2.18"  # the last ones before the Python of Debian 12 is too old for the control node


@pytest.fixture(scope="module")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program of Ansible, from a virtualenv that is thrown away."""
    place = tmp_path_factory.mktemp("ansible")
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    pip = [place / "venv" / "bin" / "pip", "install", "-q", "--disable-pip-version-check", VERSION]
    subprocess.run(pip, check=True)
    inventory = place / "inventory"
    inventory.write_text("[memhint_hosts]\nlocalhost\n[memhint_controllers]\nlocalhost\n")

    def run(program: str, *words: str | Path) -> str:
        done = subprocess.run(
            [place / "venv" / "bin" / program, "-i", inventory, *words],
            env={"PATH": "/usr/sbin:/usr/bin", "HOME": str(place), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_ansible_takes_the_playbook_and_the_role(ansible: Callable[..., str]) -> None:
    ansible("ansible-playbook", "--syntax-check", ANSIBLE / "site.yml")
    tasks = ansible("ansible-playbook", "--list-tasks", ANSIBLE / "site.yml")
    assert tasks.count("memhint : Start the services") == 2


def test_the_template_makes_a_configuration_that_memhint_takes(ansible: Callable[..., str], tmp_path: Path) -> None:
    made = tmp_path / "memhint.conf"
    wished = {"store": {"url": "sqlite:////tmp/x.db"}, "metrics": {"listen": "127.0.0.1:8791"}, "api": {"rate": 5}}
    ansible(
        "ansible",
        "localhost",
        *("-c", "local", "-m", "template", "-a", f"src={ROLE}/templates/memhint.conf.j2 dest={made}"),
        *("-e", json.dumps({"memhint_config": wished, "ansible_python_interpreter": sys.executable})),
    )
    conf = load([made])
    assert (conf.store.url, conf.metrics.listen, conf.api.rate) == ("sqlite:////tmp/x.db", "127.0.0.1:8791", 5.0)


def test_the_files_that_the_role_copies_are_there() -> None:
    text = (ROLE / "tasks" / "main.yml").read_text()
    named = {source.replace(" ", "") for source in re.findall(r"role_path \}\}/\.\./\.\./\.\./([^\"]+)\"", text)}
    assert len(named) == 3
    for name in named:
        for item in ("sysusers", "tmpfiles") if name.startswith("{{item}}.d") else ("agent", "controller", "api"):
            assert (ROOT / "etc" / name.replace("{{item}}", item)).is_file(), name
