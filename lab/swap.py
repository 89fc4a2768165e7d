"""Swap on disk for a lab, and how much memory compressed swap takes from the machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.errors import LabError, SwapError
from lab.programs import run
from lab.sizes import MIB, format_size

LEFT = 256 * MIB
"""Bytes that are left to all others who write to the same disk."""
_NOT_HERE = ("Operation not supported", "Function not implemented")
"""What fallocate says where the file system, or the kernel, cannot reserve blocks."""


def active() -> list[str]:
    """Paths of the swap areas in use."""
    return [line.split()[0].replace("\\040", " ") for line in Path("/proc/swaps").read_text().splitlines()[1:]]


def add(path: Path, size: int) -> None:
    """Make a swap file of `size` bytes and use it.

    :raises SwapError: when there is no room for it, or the file system cannot hold swap; no file is left then
    """
    free = shutil.disk_usage(path.parent).free
    if free < size + LEFT:
        raise SwapError(
            f"{format_size(size)} of swap do not fit: {path.parent} has {format_size(free)} free, of which"
            f" {format_size(LEFT)} are left to others: make room, ask for less swap, or set MEMHINT_LAB_DIR to a"
            " directory with more"
        )
    try:
        _reserve(path, size)
        run(["mkswap", str(path)], "mkswap", SwapError)
        try:
            run(["swapon", str(path)], "swapon", SwapError)
        except LabError as reason:
            raise SwapError(
                f"{reason}: the file system of {path.parent} cannot hold swap: set MEMHINT_LAB_DIR to one on ext4 or"
                " xfs"
            ) from reason
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _reserve(path: Path, size: int) -> None:
    """A file of `size` bytes, root's alone, with all of its blocks."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    try:
        run(["fallocate", "-l", str(size), str(path)], "allocating swap", SwapError)
    except LabError as reason:
        if not any(text in str(reason) for text in _NOT_HERE):
            raise
        # Not every file system can reserve blocks; writing them always works.
        run(
            ["dd", "if=/dev/zero", f"of={path}", "bs=1M", f"count={max(1, size >> 20)}"],
            "writing the swap file",
            SwapError,
        )


def remove(path: Path) -> None:
    """Stop using the swap file and delete it. Nothing happens when it is not there."""
    if str(path) in active():
        run(["swapoff", str(path)], "swapoff", SwapError)
    path.unlink(missing_ok=True)


def remove_below(folder: Path) -> None:
    """Stop using the swap files below a folder that is about to be removed, and delete them."""
    for file in active():
        if Path(file).is_relative_to(folder):
            remove(Path(file))


def zram_used(block: Path = Path("/sys/block"), swaps: Path = Path("/proc/swaps")) -> int:
    """Bytes of memory that active zram swap holds: memory the machine's own cgroups do not show."""
    used = {line.split()[0] for line in swaps.read_text().splitlines()[1:]}
    total = 0
    for device in block.glob("zram*"):
        if f"/dev/{device.name}" in used:
            # Fields: original, compressed, and memory really used, in bytes.
            total += int((device / "mm_stat").read_text().split()[2])
    return total
