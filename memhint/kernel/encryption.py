"""Whether what is written to a swap area is encrypted on its way to the disk, as the device mapper shows it."""

from __future__ import annotations

import re

from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.root import KernelRoot
from memhint.kernel.swap import SwapArea

_BLOCK = "sys/block"
_MOUNTS = "proc/self/mounts"
_BTRFS = "sys/fs/btrfs"
# cryptsetup begins every uuid with CRYPT-; these two check contents and do not hide them
_CRYPT, _NOT_HIDING = "CRYPT-", ("CRYPT-VERITY-", "CRYPT-INTEGRITY-")
_ESCAPE = re.compile(r"\\([0-7]{3})")
_DEEPEST = 16  # layers of devices; real stacks have three or four


def encrypted(root: KernelRoot, area: SwapArea) -> bool:
    """True when the device of a swap area, or everything below it, is a dm-crypt mapping.

    A swap file counts as its file system's device. What cannot be found out counts as not encrypted; so does a disk
    that encrypts by itself, of which the kernel says nothing.
    """
    try:
        blocks = _blocks_of_file(root, _plain(area.name)) if area.file else [_block(root, _plain(area.name))]
        return bool(blocks) and all(_hidden(root, block, _DEEPEST) for block in blocks)
    except KernelInterfaceError:
        return False


def _hidden(root: KernelRoot, block: str | None, depth: int) -> bool:
    """Whether a directory of /sys/block stands for an encrypted device, by itself or by all that it stands on."""
    if block is None or not depth:
        return False
    name = f"{_BLOCK}/{block}/dm/uuid"
    uuid = root.read_text(name).strip() if root.exists(name) else ""
    if uuid.startswith(_CRYPT) and not uuid.startswith(_NOT_HIDING):
        return True
    slaves = f"{_BLOCK}/{block}/slaves"
    below = root.names(slaves) if root.exists(slaves) else []
    return bool(below) and all(_hidden(root, _disk(root, one), depth - 1) for one in below)


def _block(root: KernelRoot, device: str) -> str | None:
    """The directory of /sys/block of a device's name; None where there is none."""
    name = device.removeprefix("/dev/")
    if name.startswith("mapper/"):
        wanted = name.removeprefix("mapper/")
        for block in root.names(_BLOCK):
            known = f"{_BLOCK}/{block}/dm/name"
            if root.exists(known) and root.read_text(known).strip() == wanted:
                return block
        return None
    return _disk(root, name)


def _disk(root: KernelRoot, name: str) -> str | None:
    # a partition has its directory below its disk's and stands on nothing else, so it is never found encrypted
    return name if "/" not in name and root.exists(f"{_BLOCK}/{name}") else None


def _blocks_of_file(root: KernelRoot, path: str) -> list[str | None]:
    """What the file system that a path is on lies on: the device of the last mount of the longest point above it."""
    best, device, kind = "", None, ""
    for line in root.lines(_MOUNTS):
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = _plain(words[1])
        above = point == "/" or path.startswith(f"{point}/")
        if above and len(point) >= len(best):
            best, device, kind = point, _plain(words[0]), words[2]
    if device is None or not device.startswith("/dev/"):
        return []
    block = _block(root, device)
    return _all_of_btrfs(root, block) if kind == "btrfs" else [block]


def _all_of_btrfs(root: KernelRoot, block: str | None) -> list[str | None]:
    """All devices of the btrfs that this is one of: a mount names one, and a swap file may lie on any."""
    for name in root.names(_BTRFS):
        devices = f"{_BTRFS}/{name}/devices"
        there = root.names(devices) if root.exists(devices) else []
        if block in there:
            return [_disk(root, one) for one in there]
    return []


def _plain(name: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), name)
