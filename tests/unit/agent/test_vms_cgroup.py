"""The cgroups that hold the VMs: what one VM that cannot be read costs, and the limits of each VM's own."""

from __future__ import annotations

import pytest

from memhint.agent.vms_cgroup import AGAIN, VmsCgroupReads
from memhint.objects.host import HostObservation, SwapLimit
from tests.unit import builders
from tests.unit.kernel.fake_root import FakeRoot

TOP = "sys/fs/cgroup"
SLICE = f"{TOP}/machine.slice"


class Host:
    """Some VMs, each in a scope below the slice and there in a cgroup of libvirt's, as files."""

    def __init__(self, path) -> None:
        self.root = FakeRoot(path)
        self.root.write("proc/self/mounts", f"cgroup2 /{TOP} cgroup2 rw 0 0\n")
        self.cgroup(SLICE)
        self.reads = VmsCgroupReads(self.root.kernel, 4096)
        self.pids: dict[str, int] = {}
        for uuid in ("a", "b"):
            self.start(uuid)

    def cgroup(self, path: str, swap: str = "max") -> None:
        files = {"memory.current": "4096\n", "memory.stat": "anon 1\n", "memory.swap.current": "0\n"}
        self.root.write_all(path, files | {"memory.swap.max": f"{swap}\n"})

    def scope(self, uuid: str) -> str:
        return f"{SLICE}/{uuid}-{self.pids[uuid]}.scope"

    def start(self, uuid: str) -> None:
        """Begin a VM, or begin it again in a scope of its own."""
        pid = self.pids[uuid] = self.pids.get(uuid, 1000 + 100 * len(self.pids)) + 1
        self.cgroup(self.scope(uuid))
        self.cgroup(f"{self.scope(uuid)}/libvirt")
        self.root.write(f"proc/{pid}/cgroup", f"0::{self.scope(uuid).removeprefix(TOP)}/libvirt/emulator\n")

    def limit(self, path: str, swap: int) -> None:
        self.root.write(f"{path}/memory.swap.max", f"{swap}\n")

    def look(self, now: float = 0.0, unread: str = "") -> HostObservation:
        processes = {uuid: builders.process(pid=pid) for uuid, pid in self.pids.items() if uuid not in unread}
        return self.reads.add_to(builders.host_observation(), processes, set(unread), now)


@pytest.fixture
def host(tmp_path) -> Host:
    return Host(tmp_path)


def test_a_limit_of_the_cgroup_of_all_is_theirs_together(host: Host) -> None:
    host.limit(SLICE, 8192)
    seen = host.look()
    assert seen.vms is not None
    assert (seen.vms.path, seen.vms.swap_most) == (f"/{SLICE}", 8192)
    assert seen.swap_limits == (SwapLimit(8192, ("a", "b")),)
    assert not seen.gaps


@pytest.mark.parametrize("below", ["", "/libvirt"])
def test_each_vm_has_the_least_of_its_own_cgroups(host: Host, below: str) -> None:
    """A drop-in limits the scope, and libvirt's swap_hard_limit the cgroup within it."""
    host.limit(f"{host.scope('a')}/libvirt", 8192)
    host.limit(f"{host.scope('a')}{below}", 4096)
    seen = host.look()
    assert seen.swap_limits == (SwapLimit(4096, ("a",)),)
    assert seen.vms is not None
    assert seen.vms.swap_most is None


def test_nothing_is_limited_where_no_cgroup_is(host: Host) -> None:
    assert host.look().swap_limits == ()


def test_while_one_vm_cannot_be_read_what_holds_for_all_is_not_known_and_its_own_limit_goes_on(host: Host) -> None:
    host.limit(SLICE, 8192)
    host.limit(host.scope("b"), 0)
    known = host.look().swap_limits
    seen = host.look(10.0, unread="b")
    assert (seen.vms, seen.unread("vms")) == (None, True)
    assert known == seen.swap_limits == (SwapLimit(8192, ("a", "b")), SwapLimit(0, ("b",)))
    assert not host.look(20.0).unread("vms")


def test_of_a_vm_that_was_never_read_no_limit_is_known(host: Host) -> None:
    host.limit(SLICE, 8192)
    assert host.look(unread="b").swap_limits == (SwapLimit(8192, ("a",)),)


def test_an_agent_that_is_reloaded_knows_the_limits_of_a_vm_that_cannot_be_read_then(host: Host) -> None:
    host.limit(host.scope("b"), 0)
    host.look()
    before, host.reads = host.reads, VmsCgroupReads(host.root.kernel, 4096)
    host.reads.inherit(before)
    assert host.look(10.0, unread="b").swap_limits == (SwapLimit(0, ("b",)),)


def test_a_vm_that_is_gone_is_in_no_limit(host: Host) -> None:
    host.limit(host.scope("b"), 0)
    host.look()
    del host.pids["b"]
    assert host.look(10.0).swap_limits == ()


def test_a_vm_that_was_started_again_has_the_limits_of_its_new_cgroup(host: Host) -> None:
    host.limit(host.scope("b"), 0)
    host.look()
    host.start("b")
    assert host.look(10.0).swap_limits == ()
    host.limit(host.scope("b"), 4096)
    assert host.look(20.0 + AGAIN).swap_limits == (SwapLimit(4096, ("b",)),)


def test_limits_are_read_again_after_a_minute_and_not_each_time(host: Host) -> None:
    host.look()
    host.limit(host.scope("a"), 0)
    assert host.look(AGAIN / 2).swap_limits == ()
    assert host.look(AGAIN * 1.5).swap_limits == (SwapLimit(0, ("a",)),)


def test_a_cgroup_that_cannot_be_read_now_limits_nothing_and_is_asked_the_next_time(host: Host) -> None:
    host.limit(host.scope("a"), 0)
    host.root.write(f"{host.scope('a')}/memory.swap.max", "none of your business\n")
    assert host.look().swap_limits == ()
    host.limit(host.scope("a"), 0)
    assert host.look(10.0).swap_limits == (SwapLimit(0, ("a",)),)


def test_a_cgroup_of_all_that_is_gone_is_a_gap_and_the_vms_are_looked_up_again(host: Host) -> None:
    host.look()
    host.root.remove(f"{SLICE}/memory.current")
    assert host.look(10.0).unread("vms")
    host.cgroup(SLICE)
    assert not host.look(20.0).unread("vms")


def test_a_process_that_ended_meanwhile_is_a_gap_and_keeps_where_it_was(host: Host) -> None:
    host.limit(host.scope("b"), 0)
    host.look()
    host.root.remove("proc/1101/cgroup").path.joinpath("proc/1101").rmdir()
    seen = host.look(AGAIN * 2)
    assert seen.unread("vms")
    assert seen.swap_limits == (SwapLimit(0, ("b",)),)


def test_a_vm_in_no_memory_cgroup_keeps_the_others_limits_and_is_no_gap(host: Host) -> None:
    host.limit(host.scope("a"), 0)
    host.root.write("proc/1101/cgroup", "0::/\n")
    seen = host.look()
    assert (seen.vms, seen.gaps) == (None, ())
    assert seen.swap_limits == (SwapLimit(0, ("a",)),)
