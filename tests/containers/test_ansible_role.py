"""The Ansible role, run on a machine: systemd, libvirt and a VM, from nothing to a report, twice, and after a change.

Run by `make containers`, as root, with mmdebstrap. The machine has no network: what the role has apt install is there
already, and pip gets its packages from a folder, as behind a firewall.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.debian_root import HOST_PACKAGES, RELEASES
from lab.errors import WorkError
from lab.system_container import SystemContainer
from lab.waiting import wait_for
from tests.containers.images import ROOT, checkout
from tests.functional.test_ansible import VERSION

PYTHON = "/usr/bin/python3"  # the machine's own, which the container has, too
TASKS = ROOT / "etc/ansible/roles/memhint/tasks/main.yml"
SOON = 120.0  # seconds


def release() -> str:
    """This machine's own, whose Python made the wheels."""
    found = re.search(r"^VERSION_CODENAME=(\S+)$", Path("/etc/os-release").read_text(), re.MULTILINE)
    return found[1] if found and found[1] in RELEASES else "bookworm"


def asked_of_apt() -> list[str]:
    """The packages that the role installs."""
    found = re.search(r"ansible\.builtin\.apt:\n +name: \[(.+)\]", TASKS.read_text())
    assert found
    return found[1].split(", ")


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkout, Ansible, and all wheels that a host needs."""
    folder = tmp_path_factory.mktemp("control")
    checkout(folder / "memhint")
    subprocess.run([PYTHON, "-m", "venv", folder / "ansible"], check=True)
    pip = [folder / "ansible/bin/pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", VERSION], check=True)
    # the copy has no git, which the version comes from
    environment = {**os.environ, "PBR_VERSION": "0.0.0"}
    subprocess.run([*pip, "wheel", "--wheel-dir", folder / "wheels", folder / "memhint"], check=True, env=environment)
    return folder


@pytest.fixture
def host(control: Path) -> Iterator[SystemContainer]:
    packages = (*HOST_PACKAGES, "python3-apt", *asked_of_apt())
    with SystemContainer(release(), {"/control": control}, packages=packages) as one:
        one.check("printf '[global]\\nno-index = true\\nfind-links = /control/wheels\\n' > /etc/pip.conf")
        yield one


def play(host: SystemContainer, **variables: Any) -> dict[str, int]:
    """Run the shipped playbook for hosts; what the last line counts, such as "changed"."""
    (wheel,) = host.check("ls /control/wheels/memhint-*.whl").split()
    wished = {"memhint_wheel": wheel, "ansible_become": False, "ansible_python_interpreter": PYTHON, **variables}
    host.check("printf '[memhint_hosts]\\nlocalhost ansible_connection=local\\n' > /root/inventory")
    host.check(f"cat > /root/wished.json <<'END'\n{json.dumps(wished)}\nEND")
    said = host.check(
        "/control/ansible/bin/python /control/ansible/bin/ansible-playbook -i /root/inventory -e @/root/wished.json "
        "/control/memhint/etc/ansible/site.yml",
        deadline=600.0,
    )
    return {
        name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", said.splitlines()[-2] + said.splitlines()[-1])
    }


def status(host: SystemContainer) -> dict[str, Any]:
    done = host.sh("/usr/local/sbin/memhint status --json")
    return dict(json.loads(done.out)) if done.code == 0 else {}


def test_a_host_reports_after_one_run_and_a_second_changes_nothing(host: SystemContainer) -> None:
    first = play(host)
    assert (first["failed"], first["unreachable"]) == (0, 0)
    assert first["changed"] > 5
    wait_for(lambda: status(host), SOON, "a first report", 1.0)
    assert host.check("systemctl is-enabled memhint-agent").strip() == "enabled"
    assert host.check("stat -c '%a %U:%G' /etc/memhint/memhint.conf").strip() == "640 root:memhint"

    running = host.check("systemctl show -P MainPID memhint-agent")
    assert play(host)["changed"] == 0
    assert host.check("systemctl show -P MainPID memhint-agent") == running

    changed = play(host, memhint_config={"DEFAULT": {"period": 2}})
    assert changed["changed"] == 2  # the file, and the restart
    wait_for(lambda: status(host).get("period") == 2.0, SOON, "the new period", 0.5)
    assert host.check("systemctl show -P MainPID memhint-agent") != running
    assert "Traceback" not in host.check("journalctl --no-pager -u memhint-agent")


def test_a_single_host_has_an_api_on_the_agents_store(host: SystemContainer) -> None:
    wished: dict[str, Any] = {"memhint_parts": ["agent", "api"], "memhint_single_host": True}
    with pytest.raises(WorkError, match="Set memhint_tokens"):
        play(host, **wished)
    token = host.check("/usr/local/sbin/memhint token create alice --role admin").strip()
    play(host, memhint_tokens=[token], **wished)
    wait_for(lambda: status(host), SOON, "a first report", 1.0)
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8790/healthz').read().decode())"
    wait_for(
        lambda: host.sh(f'python3 -c "{ask}"').out, SOON, "the API to answer", 1.0,
        lambda: host.check("journalctl --no-pager -u memhint-api | tail"),
    )  # fmt: skip
    assert host.check("systemctl is-active memhint-agent memhint-api").split() == ["active", "active"]
