from __future__ import annotations

import pytest

from memhint.kernel.errors import InterfaceMissing, ProcessGone
from memhint.kernel.memcg import UNLIMITED, CgroupVersion, amount, amount_text, own_limit
from memhint.kernel.process_cgroup import home

from .fake_root import FakeRoot

TOP = "/sys/fs/cgroup"
V2 = f"cgroup2 {TOP} cgroup2 rw,nosuid,nsdelegate,memory_recursiveprot 0 0\n"
HYBRID = (
    "tmpfs /sys/fs/cgroup tmpfs ro 0 0\n"
    f"cgroup2 {TOP}/unified cgroup2 rw,nsdelegate 0 0\n"
    f"cgroup {TOP}/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
    f"cgroup {TOP}/memory cgroup rw,memory 0 0\n"
)
SCOPE = "/machine.slice/machine-qemu\\x2d1\\x2dvm1.scope"


def host(fake: FakeRoot, cgroup: str, mounts: str = V2, *levels: str) -> FakeRoot:
    for level in levels:
        fake.write(f"{TOP}{level}/memory.current", "1\n")
    return fake.write("proc/self/mounts", mounts).write("proc/7/cgroup", cgroup)


def test_threads_of_libvirts_cgroups_are_charged_to_the_one_above(fake: FakeRoot) -> None:
    levels = ("/machine.slice", SCOPE, f"{SCOPE}/libvirt")
    found = home(host(fake, f"0::{SCOPE}/libvirt/emulator\n", V2, *levels).kernel, 7)
    assert (found.version, found.path) == (CgroupVersion.V2, f"{TOP}{SCOPE}/libvirt")
    assert found.ancestors == (f"{TOP}{SCOPE}", f"{TOP}/machine.slice")
    assert not found.for_many


def test_without_systemd_and_without_nesting(fake: FakeRoot) -> None:
    found = home(
        host(fake, "0::/machine/qemu-1-vm1.libvirt-qemu\n", V2, "/machine", "/machine/qemu-1-vm1.libvirt-qemu").kernel,
        7,
    )
    assert found.path == f"{TOP}/machine/qemu-1-vm1.libvirt-qemu"
    assert found.ancestors == (f"{TOP}/machine",)


def test_where_version_1_has_the_memory_that_is_meant(fake: FakeRoot) -> None:
    fake.write(f"{TOP}/memory{SCOPE}/memory.limit_in_bytes", "9\n")
    found = home(host(fake, f"9:name=systemd:{SCOPE}\n4:memory:{SCOPE}\n0::{SCOPE}\n", HYBRID).kernel, 7)
    assert (found.version, found.path) == (CgroupVersion.V1, f"{TOP}/memory{SCOPE}")
    assert found.mount == f"{TOP}/memory"


@pytest.mark.parametrize(
    ("cgroup", "mounts"),
    [
        ("0::/\n", V2),
        ("0::/../other\n", V2),
        ("0::/vm/..\n", V2),
        ("0::/vm\n", "proc /proc proc rw 0 0\n"),
        ("4:memory:/vm\n0::/vm\n", V2),
        ("3:cpu:/vm\n", V2),
        ("nonsense\n::\n\n", V2),
        ("", V2),
        ("0::/not/there\n", V2),
    ],
)
def test_no_cgroup_with_memory_is_missing(fake: FakeRoot, cgroup: str, mounts: str) -> None:
    with pytest.raises(InterfaceMissing):
        home(host(fake, cgroup, mounts, "/vm").kernel, 7)


@pytest.mark.parametrize(
    ("cgroup", "mounts"),
    [
        ("0:://\n", "cgroup2  cgroup2 rw 0 0\n"),
        ("0::/a\n", "cgroup2  cgroup2 rw 0 0\n"),
        ("0:://a\n", "cgroup2 / cgroup2 rw 0 0\n"),
        ("0::a\n", "cgroup2  cgroup2 rw 0 0\n"),
    ],
)
def test_damaged_text_has_an_end(fake: FakeRoot, cgroup: str, mounts: str) -> None:
    with pytest.raises(InterfaceMissing):
        home(host(fake, cgroup, mounts).kernel, 7)


def test_a_process_that_ended_is_gone(fake: FakeRoot) -> None:
    with pytest.raises(ProcessGone):
        home(fake.write("proc/self/mounts", V2).kernel, 7)


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("/system.slice/libvirtd.service", True),
        ("/machine.slice", True),
        ("/user.slice/user-0.slice/session-3.scope", True),
        ("/machine.slice/machine-qemu\\x2d1\\x2dsession.scope", False),
    ],
)
def test_what_systemd_makes_for_many_is_told_apart(fake: FakeRoot, name: str, many: bool) -> None:
    assert home(host(fake, f"0::{name}\n", V2, name).kernel, 7).for_many is many


def test_amounts_are_read_and_written_as_the_kernel_does(fake: FakeRoot) -> None:
    fake.write("a", "max\n").write("b", "4096\n")
    assert (amount(fake.kernel, "a"), amount(fake.kernel, "b")) == (UNLIMITED, 4096)
    assert (amount_text(UNLIMITED), amount_text(4096)) == ("max", "4096")


def test_the_tighter_of_two_limits_holds(fake: FakeRoot) -> None:
    fake.write("vm/memory.max", "max\n").write("vm/memory.high", "max\n")
    assert own_limit(fake.kernel, "vm") == UNLIMITED
    fake.write("vm/memory.max", "8192\n").write("vm/memory.high", "4096\n")
    assert own_limit(fake.kernel, "vm") == 4096
