"""A real OpenStack: VMs through Nova's API on two hosts, what is plugged in, services that end, and nothing left.

The tests run in this order: the last ends the stack.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import libvirt
import pytest
from openstack.exceptions import BadRequestException

from lab.cgroup import PARENT, detect
from lab.openstack import Extras, Stack
from lab.openstack.errors import ServerFailed
from lab.openstack.images import flavor
from lab.openstack.vm import Vm
from lab.sizes import GIB, MIB
from lab.waiting import wait_for

CHECKOUT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).resolve().parent / "probe"
RELEASE = os.environ.get("MEMHINT_OPENSTACK_RELEASE", "34")
FILTER = """\
[filter_scheduler]
available_filters = lab_probe.Probe
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,Probe
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    # A copy: what is built from a source tree leaves things in it.
    probe = shutil.copytree(PROBE, tmp_path_factory.mktemp("probe") / "probe")
    extras = Extras(packages=(str(probe),), nova={"scheduler": FILTER})
    with Stack(
        RELEASE, fakes=1, memory=3 * GIB, reserved=GIB, fake_memory=3 * GIB, extras=extras, name=f"os-{os.getpid()}"
    ) as stack:
        flavor(stack.cloud, "refused", 256 * MIB, **{"lab_probe:refuse": "yes"})
        yield stack


def domains(stack: Stack, compute: str) -> list[str]:
    host = stack.compute(compute).host
    assert host is not None
    connection = libvirt.open(host.uri)
    try:
        return [domain.UUIDString() for domain in connection.listAllDomains()]
    finally:
        connection.close()


def test_a_vm_boots_works_migrates_and_goes(stack: Stack) -> None:
    vm = stack.boot("one", host="host-1")
    assert domains(stack, "host-1") == [vm.uuid]
    vm.alloc("kept", 64 * MIB)
    about = vm.meminfo()
    assert about["balloon"] is True
    assert 0.8 * GIB < about["MemTotal"] <= GIB

    vm.live_migrate(stack.compute("host-2"))

    assert vm.compute.name == "host-2"
    assert (domains(stack, "host-1"), domains(stack, "host-2")) == ([], [vm.uuid])
    assert vm.meminfo()["boot_id"] == about["boot_id"]
    assert [block["name"] for block in vm.work("list")["blocks"]] == ["kept"]
    host = stack.compute("host-2").host
    assert host is not None
    host.cgroup.require(vm.pid(), "QEMU")
    vm.delete()
    assert domains(stack, "host-2") == []


@pytest.mark.skipif(RELEASE == "31", reason="Nova 31 does not switch page reporting on")
def test_freed_memory_comes_back_from_a_vm_of_nova(stack: Stack) -> None:
    vm = stack.boot("freeing", host="host-1")
    vm.alloc("a", 300 * MIB)
    full = vm.resident()
    vm.free("a")
    wait_for(lambda: vm.resident() < full - 200 * MIB, 60, "the guest's freed memory to return to the host")
    vm.delete()


@pytest.mark.parametrize("compute", ["fake-1", "host-1"])
def test_a_full_host_refuses_until_placement_promises_more(stack: Stack, compute: str) -> None:
    assert stack.inventory(stack.compute(compute))["allocation_ratio"] == 1.0  # type: ignore[index]
    fits = 3 if compute == "fake-1" else 2
    vms = [stack.boot(f"fits-{number}", host=compute, wait=False) for number in range(fits)]
    for vm in vms:
        vm.wait("ACTIVE")
    with pytest.raises(ServerFailed, match="No valid host"):
        stack.boot("too-many", host=compute)
    set_ratio(stack, compute, 1.5)
    vms.append(stack.boot("fits-now", host=compute))
    set_ratio(stack, compute, 1.0)
    for vm in (*vms, *found(stack, "too-many")):
        vm.delete()


def test_a_vm_moves_cold_and_changes_its_size(stack: Stack) -> None:
    vm = stack.boot("cold", host="host-1")
    compute = stack.cloud.compute
    compute.migrate_server(vm.uuid, host="host-2")
    vm.wait("VERIFY_RESIZE")
    compute.confirm_server_resize(vm.uuid)
    vm.wait("ACTIVE")
    assert vm.ready().compute.name == "host-2"

    compute.resize_server(vm.uuid, flavor(stack.cloud, "half", 512 * MIB).id)
    vm.wait("VERIFY_RESIZE")
    compute.confirm_server_resize(vm.uuid)
    vm.wait("ACTIVE")
    assert vm.ready().meminfo()["MemTotal"] < 512 * MIB
    vm.delete()
    assert domains(stack, "host-1") == domains(stack, "host-2") == []


def test_a_vm_of_a_dead_host_is_evacuated(stack: Stack) -> None:
    vm = stack.boot("evacuated", host="host-1")
    dead = stack.compute("host-1")
    stack.kill(dead.service)
    os.kill(vm.pid(), signal.SIGKILL)
    (service,) = stack.cloud.compute.services(binary="nova-compute", host="host-1")
    stack.cloud.compute.update_service_forced_down(service, forced=True)
    stack.cloud.compute.evacuate_server(vm.uuid, host="host-2")
    wait_for(lambda: vm.compute.name == "host-2", 120, "the evacuation", 0.5)
    vm.wait("SHUTOFF")  # as Nova leaves them since API 2.95
    stack.cloud.compute.start_server(vm.uuid)
    vm.wait("ACTIVE")
    vm.ready()

    stack.start(dead.service)

    def back() -> bool:
        try:
            stack.cloud.compute.update_service_forced_down(service, forced=False)
        except BadRequestException:
            return False  # Nova waits for the compute to clean up after its evacuated VMs
        return True

    wait_for(back, 120, "Nova to take the host back", 1)
    stack.wait_for_computes()
    wait_for(lambda: domains(stack, "host-1") == [], 60, "the host that is back to forget the VM", 0.5)
    vm.delete()


def test_what_is_plugged_in_decides(stack: Stack) -> None:
    with pytest.raises(ServerFailed, match="No valid host"):
        stack.boot("refused", flavor="refused")
    for vm in found(stack, "refused"):
        vm.delete()
    (driver,) = stack.venv.glob("lib/*/site-packages/nova/virt/lab_probe")
    assert driver.is_dir()  # beside Nova's own drivers, and in no other stack's virtualenv
    shared = Path(stack.venv).resolve() == stack.lab.directory / "venv"
    assert shared


def test_services_come_back_after_a_power_cut(stack: Stack) -> None:
    fake = stack.compute("fake-1")
    before = fake.uuid
    set_ratio(stack, "fake-1", 2.0)
    for name in ("mariadb", "rabbitmq", "placement", "nova-scheduler", fake.service):
        stack.kill(name)
        assert not stack.processes.alive(name)
        stack.start(name)
    stack.wait_for_computes()
    assert fake.uuid == before
    assert stack.inventory(fake)["allocation_ratio"] == 2.0  # type: ignore[index]
    # A service that has just lost its broker may answer the first call with the loss.
    vm = wait_for(lambda: booted(stack, "after", "fake-1"), 120, "a VM after the power cut", 1)
    assert vm is not None
    vm.delete()
    set_ratio(stack, "fake-1", 1.0)


def test_the_command_line_knows_a_stack_that_another_process_started(stack: Stack) -> None:
    def run(*words: str) -> str:
        command = [str(CHECKOUT / "lab" / "openstack" / "lab"), *words, "--name", stack.lab.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    seen = json.loads(run("status", "--json"))
    assert {one["name"] for one in seen["computes"]} == {"host-1", "host-2", "fake-1"}
    assert all(one["pid"] for one in seen["services"])
    assert [one["ratio"] for one in seen["computes"]] == [1.0, 1.0, 1.0]
    assert f"export OS_AUTH_URL={stack.environment()['OS_AUTH_URL']}\n" in run("env")


def test_down_leaves_nothing(stack: Stack) -> None:
    vm = stack.boot("left", host="host-1", wait=False)
    vm.wait("ACTIVE")
    assert traces(stack)  # they are found while there is something
    stack.down()
    assert traces(stack) == []


def test_a_stack_ends_when_the_process_that_uses_it_is_killed() -> None:
    name = f"os-{os.getpid()}-x"
    code = f"from lab.openstack import Stack\nwith Stack({RELEASE!r}, computes=1, memory={GIB}, name={name!r}): pass"
    user = subprocess.Popen([sys.executable, "-c", code], cwd=CHECKOUT)
    stack = Stack(name=name)
    wait_for(lambda: stack.processes.alive("keystone"), 120, "a part of the stack to run")
    user.send_signal(signal.SIGKILL)
    user.wait()
    wait_for(lambda: not traces(stack), 60, "the keeper to end the stack", 0.5)


def set_ratio(stack: Stack, compute: str, ratio: float) -> None:
    """Write MEMORY_MB's allocation_ratio as somebody outside of Nova does, again while Nova writes too."""
    one = stack.compute(compute)

    def written() -> bool:
        inventory = stack.inventory(one)
        assert inventory is not None
        answer = stack.cloud.placement.put(
            f"/resource_providers/{one.uuid}/inventories/MEMORY_MB", json={**inventory, "allocation_ratio": ratio}
        )
        assert answer.status_code in (200, 409)
        return answer.status_code == 200

    wait_for(written, 30, f"the ratio of {compute}")


def found(stack: Stack, name: str) -> list[Vm]:
    return [Vm(stack, server.id) for server in stack.cloud.compute.servers(name=f"^{name}$")]


def booted(stack: Stack, name: str, host: str) -> Vm | None:
    try:
        return stack.boot(name, host=host)
    except ServerFailed:
        for vm in found(stack, name):
            vm.delete()
        return None


def traces(stack: Stack) -> list[str]:
    """All that tells of a stack on this machine."""
    directory, prefix = str(stack.lab.directory), stack.network.prefix
    seen = [directory] if stack.lab.directory.exists() else []
    hierarchies = detect()
    for root in {hierarchies.memory, hierarchies.unified or hierarchies.memory}:
        seen += [str(path) for path in (root / PARENT).glob(f"{stack.lab.name}.*")]
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if directory.encode() in words or directory in (process / "mountinfo").read_text():
                seen.append(f"{process.name}: {words[:200]!r}")
        except OSError:
            continue  # it has ended meanwhile
    sockets = subprocess.run(["ss", "-Hlntx"], capture_output=True, text=True, check=True).stdout
    seen += [line for line in sockets.splitlines() if f"{prefix}." in line or directory in line]
    return seen
