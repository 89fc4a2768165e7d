"""doc/install.md, word for word, under systemd with libvirt and a VM: from package to report, and to nothing left.

The kernel is this machine's, so a VM has a slice and a `memory.min` only where version 2 of cgroups has the memory
controller: `tests/lab/test_cgroup2.py` has that.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.sizes import MIB
from lab.system_container import Done, SystemContainer
from lab.tiny_guest import tiny_guest
from lab.waiting import wait_for
from tests import debian_package

DOC = Path(__file__).resolve().parents[2] / "doc" / "install.md"
VM_SIZE = 64 * MIB
SOON = 120.0  # seconds for what a period or two brings
DOMAIN = """
<domain type='qemu'>
  <name>tiny</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <loader readonly='yes' type='rom'>/var/lib/libvirt/tiny_guest.bin</loader>
  </os>
  <features><acpi/><tcg><tb-cache unit='MiB'>16</tb-cache></tcg></features>
  <devices><controller type='usb' model='none'/><memballoon model='virtio'/><serial type='null'/></devices>
</domain>
"""
# What the levers write and may do, each by the unit's own rules.
WRITES = (
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
    "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds",
    "/sys/fs/cgroup/cgroup.procs",
    "/var/lib/memhint",
    "/run/memhint",
    "/var/log/memhint",
)
# CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_NICE, CAP_SYS_RESOURCE
CAPABILITIES = 1 << 1 | 1 << 2 | 1 << 19 | 1 << 23 | 1 << 24
MAY_NOT = ("/etc/memhint/memhint.conf", "/usr/bin/true", "/proc/sys/vm/swappiness", "/sys/kernel/mm/hugepages")


def commands(step: str) -> list[str]:
    """The commands of doc/install.md that follow `<!-- test: STEP -->`, a line each."""
    found = re.findall(rf"^<!-- test: {step} -->\n\n((?:    .+\n)+)", DOC.read_text(), re.MULTILINE)
    assert len(found) == 1, f"doc/install.md has {len(found)} blocks of {step}"
    return [line.removeprefix("    ") for line in found[0].splitlines()]


class Machine:
    """The machine, as an administrator sits in front of it."""

    def __init__(self, host: SystemContainer) -> None:
        self.host = host

    def type(self, step: str) -> list[Done]:
        """What the page's commands of a step came to; none may fail. Where a question is asked, yes is the answer."""
        done = []
        for command in commands(step):
            done.append(self.host.sh(f"cd /root && yes | ( {command} )"))
            assert done[-1].code == 0, (command, done[-1], self.journal())
        return done

    def journal(self) -> str:
        return self.host.check("journalctl --no-pager -o cat -u memhint-agent | tail -n 60")

    def status(self) -> dict[str, Any]:
        """What `memhint status` says once there is a fresh report; empty until then."""
        done = self.host.sh("memhint status --json")
        return json.loads(done.out) if done.code == 0 else {}

    def report_of(self, version: str) -> None:
        """Wait for a report by this version of the agent, in which the VM runs."""
        wait_for(
            lambda: (said := self.status()).get("agent") == version and said["domains"].get("running") == 1,
            SOON, f"a report of {version} with the VM", 2.0,
        )  # fmt: skip

    def has(self, path: str) -> bool:
        return self.host.sh(f"test -e {path}").code == 0

    def oom_score(self) -> int:
        """How early the kernel ends the VM's QEMU when memory is short, as its class says."""
        return int(self.host.check("cat /proc/$(cat /run/libvirt/qemu/tiny.pid)/oom_score_adj"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `before` and `now`, each with a package; the older one is the newer one under another version."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "now").mkdir()
    package = debian_package.built()
    shutil.copy(package, folder / "now")
    debian_package.made_over(package, folder / "before", "0~before", "0.0.0")
    tiny_guest(folder, VM_SIZE, rests=True)
    return folder


@pytest.fixture
def machine(packages: Path) -> Iterator[Machine]:
    with SystemContainer(folders={"/packages": packages}) as host:
        yield Machine(host)


def test_from_the_package_to_a_report_and_back(machine: Machine) -> None:
    host = machine.host
    a_vm_runs(host)
    host.check("ln -sfn /packages/before /root/dist")

    machine.type("install")
    nothing_is_started(host)

    machine.type("start")
    machine.report_of("0.0.0")
    status, domains = (done.out for done in machine.type("look"))
    assert "1: 1 running" in status
    assert "tiny" in domains
    the_unit_lets_levers_work(host)
    before = machine.oom_score()
    host.check("memhint set tiny class=best-effort")
    wait_for(lambda: machine.oom_score() == before + 500, SOON, "the class of the VM to be carried out", 0.5)

    host.check(r"sed -i 's|^\[DEFAULT\]$|&\nperiod = 2|' /etc/memhint/memhint.conf")
    machine.type("reload")
    wait_for(lambda: machine.status().get("period") == 2.0, SOON, "the new period", 0.5)

    host.check(r"sed -i 's|^\[DEFAULT\]$|&\nlog_dir = /var/log/memhint|' /etc/memhint/memhint.conf")
    host.check("ln -sfn /packages/now /root/dist")
    running = host.check("systemctl show -P MainPID memhint-agent")
    install, restart = commands("upgrade")
    host.check(f"cd /root && ( {install} ) </dev/null")  # there is nobody to ask
    assert host.check("find /etc/memhint -name '*.dpkg-*'") == ""
    assert host.check("systemctl show -P MainPID memhint-agent") == running
    machine.report_of("0.0.0")
    assert machine.oom_score() == before + 500
    host.check(restart)
    version = host.check("memhint --version").split()[-1]
    assert version != "0.0.0"
    machine.report_of(version)
    assert machine.status()["period"] == 2.0
    wait_for(lambda: machine.oom_score() == before + 500, SOON, "the class to be carried out again", 0.5)
    its_log_is_rotated(host)

    _, _, marks = machine.type("stop")
    assert marks.out == ""
    assert machine.oom_score() == before
    assert "Traceback" not in machine.journal()
    assert host.check("systemctl show -P NRestarts memhint-agent").strip() == "0"

    machine.type("remove")
    assert not machine.has("/opt/memhint")
    assert machine.has("/etc/memhint/memhint.conf")
    assert machine.has("/var/lib/memhint/memhint.db")
    machine.type("purge")
    assert host.check("find / -xdev -name '*memhint*'") == ""
    assert host.sh("getent passwd memhint").code != 0
    assert host.check("virsh domstate tiny").strip() == "running"


def a_vm_runs(host: SystemContainer) -> None:
    """Under libvirt, before memhint comes."""
    host.check("cp /packages/tiny_guest.bin /var/lib/libvirt/")
    host.check(f"cat > /root/tiny.xml <<'END'\n{DOMAIN}\nEND\nvirsh define /root/tiny.xml && virsh start tiny")


def nothing_is_started(host: SystemContainer) -> None:
    """The package has its user and its files, closed to others, and waits."""
    assert host.sh("systemctl is-active memhint-agent").out.strip() == "inactive"
    assert host.sh("systemctl is-enabled memhint-agent memhint-controller memhint-api").out.split() == ["disabled"] * 3
    names = "/etc/memhint /etc/memhint/memhint.conf /var/log/memhint /usr/sbin/memhint"
    said = host.check(f"stat -L -c '%a %U:%G' {names}").splitlines()
    assert said == ["750 root:memhint", "640 root:memhint", "770 root:memhint", "755 root:root"]
    assert host.check("getent passwd memhint").strip().endswith(":/var/lib/memhint:/usr/sbin/nologin")


def the_unit_lets_levers_work(host: SystemContainer) -> None:
    """A shell under the agent's own unit may write what the levers do, where this kernel has it, and nothing else."""
    host.check("mount -o remount,rw /sys/kernel")  # read-only in a container, whatever the unit says
    tests = [f"if test -e {path} && ! test -w {path}; then echo cannot {path}; fi" for path in WRITES]
    tests += [f"if test -w {path}; then echo can {path}; fi" for path in MAY_NOT]
    tests.append("grep CapBnd /proc/self/status")
    script = "\n".join(tests)
    folder, unit = "/var/lib/memhint", "/run/systemd/system/memhint-sandbox.service"
    host.check(f"cat > {folder}/sandbox.sh <<'END'\nexec > {folder}/sandbox.out\n{script}\nEND")
    host.check(
        f"sed 's|^ExecStart=.*|ExecStart=/bin/sh {folder}/sandbox.sh|; s|^Type=.*|Type=oneshot|; /^Restart/d' "
        f"/lib/systemd/system/memhint-agent.service > {unit}; systemctl daemon-reload; systemctl start memhint-sandbox"
    )
    said = host.check(f"cat {folder}/sandbox.out; rm {folder}/sandbox.* {unit}; systemctl daemon-reload")
    host.check("mount -o remount,ro /sys/kernel")
    name, _, capabilities = said.partition(":")
    mine = int(host.check("grep CapBnd /proc/1/status").split()[1], 16)
    assert (name, int(capabilities, 16)) == ("CapBnd", CAPABILITIES & mine)


def its_log_is_rotated(host: SystemContainer) -> None:
    """By logrotate with the shipped snippet, and the agent writes on into the new file."""
    log = "/var/log/memhint/memhint-agent.log"
    wait_for(lambda: host.sh(f"test -s {log}").code == 0, SOON, "a log file", 0.5)
    host.check("logrotate --force /etc/logrotate.d/memhint")
    assert host.sh(f"test -s {log}.1").code == 0
    host.check("memhint set tiny class=inherit && memhint set tiny class=best-effort")
    wait_for(lambda: host.sh(f"test -s {log}").code == 0, SOON, "the agent to write on", 0.5)
