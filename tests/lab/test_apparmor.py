"""AppArmor with VMs confined as libvirt confines them, in a virtual host whose kernel enforces it.

The profiles are the shipped one and libvirt's own, as this machine has it. What is done inside is in
inside_apparmor.py.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.unconfined import unconfined
from lab.virtual_host import VirtualHost
from tests.apparmor import INSTALLED, PROFILE, SMALL_PAGES, compiled, missing
from tests.small_pages import built

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

VM = "libvirt-5a1b3c8e-0000-4000-8000-000000000001"
AGENT = "memhint-agent"
OF_QEMU = "<abstractions/libvirt-qemu>\n"
OF_VMS = "  ptrace (read, trace) peer=libvirt-*,\n"
NEEDS_PTRACE = {"smaps", "smaps_rollup", "PAGEMAP_SCAN", "mem", "process_vm_readv", "process_madvise"}
OF_THE_HOST = {"ksm", "cgroup"}
NOT_ITS_OWN = {"another's file", "another knob", "a shell"}
QEMU = """
#include <sys/prctl.h>
/* Stands for QEMU: that it began, and without huge pages, is all that is asked. */
int main(void) { return prctl(PR_GET_THP_DISABLE, 0L, 0L, 0L, 0L) != 1; }
"""


LIBVIRTD = """
#include <errno.h>
#include <unistd.h>
/* Stands for libvirtd, where a profile is attached to its path: executes what it is given. */
int main(int number, char **words) { execv(words[1], words + 1); return errno; }
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualHost]:
    folder = tmp_path_factory.mktemp("policy")
    template = (INSTALLED / "libvirt" / "TEMPLATE.qemu").read_text()
    assert "profile LIBVIRT_TEMPLATE " in template
    vm = template.replace("LIBVIRT_TEMPLATE", VM)
    assert vm.count(OF_QEMU) == 1
    # It complains as shipped; here it refuses.
    agent = PROFILE.read_text().replace(" flags=(complain)", "")
    assert OF_VMS in agent
    policies = {
        "vm": compiled(vm, folder),
        # What is in local/abstractions/libvirt-qemu, that abstraction has at its end.
        "vm.small": compiled(vm.replace(OF_QEMU, OF_QEMU + SMALL_PAGES.read_text()), folder),
        "agent": compiled(agent, folder),
        "libvirtd.policy": compiled((INSTALLED / "usr.sbin.libvirtd").read_text(), folder),
        "agent.blind": compiled(agent.replace(OF_VMS, ""), folder),
    }
    files = [folder / name for name in policies]
    for file, content in zip(files, policies.values(), strict=True):
        file.write_bytes(content)
    (folder / "qemu.c").write_text(QEMU)
    subprocess.run(["cc", "-static", "-o", folder / "qemu", folder / "qemu.c"], check=True)
    (folder / "libvirtd.c").write_text(LIBVIRTD)
    subprocess.run(["cc", "-static", "-o", folder / "libvirtd", folder / "libvirtd.c"], check=True)
    files += [built(folder, None, "-static"), folder / "qemu", folder / "libvirtd"]
    # With two emulated processors a kernel that patches itself while it boots meets its own breakpoint now and then.
    with VirtualHost([Path(__file__).with_name("inside_apparmor.py"), *files], memory=320 << 20, cpus=1) as one:
        assert one.call("inside_apparmor.set_up") == "Y"
        yield one


def load(host: VirtualHost, *policies: str) -> None:
    for name in policies:
        host.call("inside_apparmor.load", name=name)


def refused(host: VirtualHost, vm: str, agent: str) -> set[str]:
    said = host.call("inside_apparmor.looked_at", vm=vm, agent=agent)
    assert set(said) >= NEEDS_PTRACE | OF_THE_HOST | NOT_ITS_OWN, said
    print(said)
    return {name for name, outcome in said.items() if outcome != "done"}


def test_an_agent_that_is_not_confined_needs_nothing(host: VirtualHost) -> None:
    load(host, "vm")
    assert refused(host, VM, "") == set()


def test_the_shipped_profile_lets_it_do_its_work_and_nothing_else(host: VirtualHost) -> None:
    load(host, "vm", "agent")
    assert refused(host, VM, AGENT) == NOT_ITS_OWN


def test_without_its_line_of_vms_a_confined_one_sees_none(host: VirtualHost) -> None:
    load(host, "vm", "agent.blind")
    assert refused(host, VM, AGENT) == NOT_ITS_OWN | NEEDS_PTRACE


def test_a_vm_may_be_started_by_the_emulator_of_small_pages_only_with_its_line(host: VirtualHost) -> None:
    load(host, "vm.small")
    assert host.call("inside_apparmor.started_small", vm=VM) == "done"
    load(host, "vm")
    assert host.call("inside_apparmor.started_small", vm=VM) == "refused: EACCES"


def test_the_labs_libvirtd_starts_the_emulator_of_the_cache(host: VirtualHost, tmp_path: Path) -> None:
    """Which the distribution's profile keeps libvirtd from, however root starts it."""
    load(host, "libvirtd.policy")
    (tmp_path / "enabled").write_text("Y\n")
    words = ["/usr/sbin/libvirtd"]
    assert host.call("inside_apparmor.emulator_started", words=words) == errno.EACCES
    assert host.call("inside_apparmor.emulator_started", words=unconfined(words, tmp_path / "enabled")) == 0
