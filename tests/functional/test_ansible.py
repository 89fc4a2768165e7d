"""The Ansible role: its syntax, its files, its template; and its broker's part, run against a broker."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from memhint.conf import load
from tests.functional.processes import ROOT
from tests.functional.servers.rabbitmq import RabbitMQ

ANSIBLE = ROOT / "etc" / "ansible"
ROLE = ANSIBLE / "roles" / "memhint"
VERSION = "ansible-core>=2.16,<2.18"  # the last ones before the Python of Debian 12 is too old for the control node

_CONTROL = """\
import json, os, sys
command, env = json.loads(sys.argv[1])
os.execvpe(command[0], command + sys.argv[2:], {**os.environ, **env})
"""


@pytest.fixture(scope="module")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs a program of Ansible, from a virtualenv that is thrown away."""
    place = tmp_path_factory.mktemp("ansible")
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    pip = [place / "venv" / "bin" / "pip", "install", "-q", "--disable-pip-version-check", VERSION]
    subprocess.run(pip, check=True)
    inventory = place / "inventory"
    inventory.write_text("[memhint_hosts]\nlocalhost\n[memhint_controllers]\nlocalhost\n")

    def run(program: str, *words: str | Path, **environment: str) -> str:
        done = subprocess.run(
            [place / "venv" / "bin" / program, "-i", inventory, *words],
            env={"PATH": "/usr/sbin:/usr/bin", "HOME": str(place), "LC_ALL": "C.UTF-8", **environment},
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


def test_the_role_gives_a_broker_its_users_and_bounds_once(
    ansible: Callable[..., str], rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    control = tmp_path / "bin" / "rabbitmqctl"  # of the broker of this test
    control.parent.mkdir()
    words = shlex.join([sys.executable, "-c", _CONTROL, json.dumps(rabbitmq.control_command())])
    control.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    control.chmod(0o755)
    playbook = tmp_path / "broker.yml"
    playbook.write_text(
        "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.include_role: {name: memhint, tasks_from: broker}\n"
    )
    wished = {
        "memhint_broker_vhost": "memhint-ansible",
        "memhint_broker_file": str(tmp_path / "memhint.json"),
        "memhint_broker_password": "of the controller",
        "memhint_broker_hosts": [{"name": "compute-1.example.org", "password": "of a host"}],
        "ansible_python_interpreter": sys.executable,
    }
    run = ("ansible-playbook", playbook, "-e", json.dumps(wished))
    environment = {"ANSIBLE_ROLES_PATH": str(ANSIBLE / "roles"), "PATH": f"{control.parent}:/usr/sbin:/usr/bin"}
    assert "changed=2" in ansible(*run, **environment)
    assert "changed=0" in ansible(*run, **environment)
    assert "memhint.json" not in ansible(*run, **environment)  # nothing of what holds passwords is printed
    told = rabbitmq.control("list_permissions", "-p", "memhint-ansible", "--no-table-headers")
    assert "compute-1.example.org\t^memhint\\.command\\.compute-1\\.example\\.org$" in told
    assert "memhint-state" in rabbitmq.control("list_policies", "-p", "memhint-ansible")


def _played(ansible: Callable[..., str], folder: Path, tasks: str, **wished: Any) -> str:
    """Some tasks of the role, run on this machine with what stands in ``folder/bin`` in place of its programs."""
    playbook = folder / f"{tasks}.yml"
    playbook.write_text(
        "- hosts: localhost\n  connection: local\n  gather_facts: false\n  tasks:\n"
        f"    - ansible.builtin.include_role: {{name: memhint, tasks_from: {tasks}}}\n"
    )
    return ansible(
        *("ansible-playbook", playbook, "-e", json.dumps({"ansible_python_interpreter": sys.executable, **wished})),
        ANSIBLE_ROLES_PATH=str(ANSIBLE / "roles"),
        PATH=f"{folder / 'bin'}:/usr/sbin:/usr/bin",
    )


def _stand_in(folder: Path, name: str, text: str) -> None:
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{text}")
    program.chmod(0o755)


def test_a_broker_that_did_not_take_its_users_gets_them_in_the_next_run(
    ansible: Callable[..., str], tmp_path: Path
) -> None:
    up, asked, made = tmp_path / "up", tmp_path / "asked", tmp_path / "made.json"
    _stand_in(tmp_path, "rabbitmqctl", f'[ -e {up} ] || exit 69\necho "$@" >>{asked}\n')
    with pytest.raises(AssertionError, match="non-zero return code"):
        _played(ansible, tmp_path, "broker", memhint_broker_file=str(made))
    assert made.exists()
    up.touch()
    _played(ansible, tmp_path, "broker", memhint_broker_file=str(made))
    assert asked.read_text() == f"import_definitions {made}\n"


def test_no_command_is_left_out_for_what_an_earlier_task_found_as_it_is_to_be() -> None:
    commands = [task for task in _tasks(_files()) if "ansible.builtin.command" in task]
    assert len(commands) == 2
    for task in commands:  # a run that failed in it has changed what comes before it
        assert "when" not in task, task["name"]


def test_services_are_restarted_by_the_run_after_one_that_failed(ansible: Callable[..., str], tmp_path: Path) -> None:
    asked, broken = tmp_path / "asked", tmp_path / "broken"
    _stand_in(
        tmp_path,
        "systemctl",
        f"""case $1 in
        show) printf 'LoadState=loaded\\nActiveState=active\\n' ;;
        restart) [ ! -e {broken} ] || exit 1
            echo "$@" >>{asked} ;;
        esac
        """,
    )
    code, configuration = tmp_path / "memhint", tmp_path / "memhint.conf"
    for file in (code, configuration):
        file.write_text("")

    def play() -> tuple[str, list[str]]:
        """What the last line says, and what was restarted."""
        asked.write_text("")
        said = _played(
            ansible, tmp_path, "start", memhint_parts=["controller", "api"], memhint_notes=str(tmp_path),
            memhint_runs_with=[str(code), str(configuration), str(tmp_path / "none")],
        )  # fmt: skip
        return said.splitlines()[-2], asked.read_text().split()[1::2]

    both = ["memhint-controller", "memhint-api"]
    assert play()[1] == both
    last, restarted = play()
    assert restarted == []
    assert "changed=0" in last
    for file in (code, configuration):
        # A run that installed this, and failed before it came to the services, is followed by one that changes nothing.
        os.utime(file, (1, 1))
        broken.touch()
        with pytest.raises(AssertionError):
            play()
        broken.unlink()
        last, restarted = play()
        assert restarted == both
        assert "changed=1" in last
        assert play()[1] == []
    said = _played(ansible, tmp_path, "start", memhint_parts=["agent", "api"], memhint_notes=str(tmp_path))
    assert re.findall(r"item=(/\S+)\)", said) == [
        "/opt/memhint/bin/memhint",
        "/etc/memhint/memhint.conf",
        "/etc/systemd/system/memhint-api.service.d/single-host.conf",
        "/etc/systemd/system/memhint-agent.service",
        "/etc/systemd/system/memhint-api.service",
    ]


def _files() -> list[Any]:
    """The role's files of tasks."""
    return [yaml.safe_load(file.read_text()) for file in sorted((ROLE / "tasks").iterdir())]


def test_the_files_that_the_role_copies_are_there() -> None:
    text = (ROLE / "tasks" / "main.yml").read_text()
    named = {source.replace(" ", "") for source in re.findall(r"role_path \}\}/\.\./\.\./\.\./([^\"]+)\"", text)}
    assert len(named) == 3
    for name in named:
        for item in ("sysusers", "tmpfiles") if name.startswith("{{item}}.d") else ("agent", "controller", "api"):
            assert (ROOT / "etc" / name.replace("{{item}}", item)).is_file(), name


def test_who_runs_the_services_can_read_what_the_role_makes_whatever_the_umask() -> None:
    installed = 0
    for task in _tasks(_files()):
        if "ansible.builtin.pip" in task:
            assert task["ansible.builtin.pip"]["umask"] == "0022"
            installed += 1
        for module in ("copy", "template", "file"):
            made = task.get(f"ansible.builtin.{module}")
            if made is not None and made.get("state") != "link":
                assert "mode" in made, task["name"]
    assert installed == 1


def _tasks(found: Any) -> Iterator[dict[str, Any]]:
    """Those of a file, in blocks too."""
    for one in found:
        if isinstance(one, list):
            yield from _tasks(one)
        else:
            yield one
            yield from _tasks(one.get("block", []))
