from __future__ import annotations

import pytest

from memhint.kernel.encryption import encrypted
from memhint.kernel.swap import SwapArea, swap_areas
from memhint.objects.units import KIB

from . import recorded
from .fake_root import FakeRoot

LUKS = "CRYPT-LUKS2-8d1c-swap"


def dm(fake: FakeRoot, number: int, name: str, uuid: str, *slaves: str) -> None:
    block = f"sys/block/dm-{number}"
    fake.write(f"{block}/dm/name", f"{name}\n").write(f"{block}/dm/uuid", f"{uuid}\n")
    for slave in slaves:
        fake.write(f"{block}/slaves/{slave}/dev", "")


def area(name: str, file: bool = False) -> SwapArea:
    return SwapArea(name, file, 1, 0, -2, False)


@pytest.fixture
def host(fake: FakeRoot) -> FakeRoot:
    fake.write("sys/block/sda/size", "1\n").write("sys/block/md0/slaves/sda3/dev", "")
    dm(fake, 0, "cryptswap", "CRYPT-PLAIN-cryptswap", "sda2")
    dm(fake, 1, "pv_crypt", LUKS, "sda3")
    dm(fake, 2, "vg-swap", "LVM-abcdef", "dm-1")
    dm(fake, 3, "vg2-swap", "LVM-123456", "sda4")
    dm(fake, 4, "mixed", "LVM-654321", "dm-1", "sda4")
    dm(fake, 5, "verity", "CRYPT-VERITY-77-x", "sda4")
    dm(fake, 6, "integrity", "CRYPT-INTEGRITY-x", "dm-1")
    dm(fake, 7, "round", "LVM-1", "dm-7")
    return fake


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("/dev/dm-0", True),
        ("/dev/mapper/cryptswap", True),
        ("/dev/dm-2", True),
        ("/dev/mapper/vg-swap", True),
        ("/dev/dm-3", False),
        ("/dev/dm-4", False),
        ("/dev/dm-5", False),
        ("/dev/dm-6", True),
        ("/dev/dm-7", False),
        ("/dev/sda2", False),
        ("/dev/sda", False),
        ("/dev/md0", False),
        ("/dev/mapper/nobody", False),
        ("/dev/dm-99", False),
        ("/dev/../dm-0", False),
        ("", False),
    ],
)
def test_a_device_is_encrypted_if_all_that_it_stands_on_is(host: FakeRoot, name: str, hidden: bool) -> None:
    assert encrypted(host.kernel, area(name)) is hidden


MOUNTS = (
    "/dev/mapper/vg2-swap / ext4 rw 0 0\n"
    "/dev/mapper/pv_crypt /var ext4 rw 0 0\n"
    "tmpfs /var/tmp tmpfs rw 0 0\n"
    "/dev/mapper/pv_crypt /with\\040space xfs rw 0 0\n"
    "/dev/sda4 /over ext4 rw 0 0\n"
    "/dev/dm-1 /over ext4 rw 0 0\n"
)


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("/swapfile", False),
        ("/var/swapfile", True),
        ("/var/lib/swap\\040file", True),
        ("/variable/swapfile", False),
        ("/var/tmp/swapfile", False),
        ("/with\\040space/swap", True),
        ("/over/swap", True),
    ],
)
def test_a_swap_file_is_as_hidden_as_its_file_system(host: FakeRoot, name: str, hidden: bool) -> None:
    assert encrypted(host.write("proc/self/mounts", MOUNTS).kernel, area(name, file=True)) is hidden


@pytest.mark.parametrize(
    ("devices", "hidden"),
    [(["dm-1"], True), (["dm-0", "dm-1"], True), (["dm-1", "sda4"], False), (["dm-0"], False), ([], False)],
)
def test_a_swap_file_on_btrfs_may_lie_on_any_of_its_devices(host: FakeRoot, devices: list[str], hidden: bool) -> None:
    host.write("proc/self/mounts", "/dev/mapper/pv_crypt / btrfs rw 0 0\n")
    host.write("sys/fs/btrfs/features/raid56", "0\n")
    for one in devices:
        host.write(f"sys/fs/btrfs/8d1c-77/devices/{one}/dev", "")
    assert encrypted(host.kernel, area("/swapfile", file=True)) is hidden


def test_what_cannot_be_found_out_is_not_encrypted(fake: FakeRoot) -> None:
    assert not encrypted(fake.kernel, area("/dev/mapper/a"))
    assert not encrypted(fake.kernel, area("/swapfile", file=True))


def test_areas_are_told_apart(fake: FakeRoot) -> None:
    zram, disk, file = swap_areas(fake.write("proc/swaps", recorded.SWAPS).kernel)
    assert (zram.in_memory, zram.file, zram.priority) == (True, False, 100)
    assert (disk.name, disk.in_memory, disk.file, disk.total) == ("/dev/sda2", False, False, 4194300 * KIB)
    assert (file.name, file.file, file.used, file.priority) == ("/swap\\040file", True, 512 * KIB, -3)
