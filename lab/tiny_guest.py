"""Guests of a few instructions, in place of a BIOS, for a QEMU that emulates within emulation."""

from __future__ import annotations

import subprocess
from pathlib import Path


def tiny_guest(folder: Path, size: int, rests: bool = False) -> Path:
    """Assemble one that writes to every page of its memory: 64 KiB that end with the guest's page.

    :param size: bytes of its memory
    :param rests: it halts its processor then, in place of waiting for a byte on its serial line
    """
    return _assembled(folder, "tiny_guest", [f"-DEND={size:#x}", *(["-DRESTS"] if rests else [])])


def waking_guest(folder: Path, size: int) -> Path:
    """Assemble one that works with its memory as it is told (waking_guest.S).

    :param size: bytes of its memory
    """
    return _assembled(folder, "waking_guest", [f"-DEND={size:#x}"])


def _assembled(folder: Path, name: str, words: list[str]) -> Path:
    for command in (
        ["gcc", "-m32", "-c", *words, "-o", f"{name}.o", str(Path(__file__).with_name(f"{name}.S"))],
        ["ld", "-m", "elf_i386", "-Ttext", "0xfffff000", "-o", f"{name}.elf", f"{name}.o"],
        ["objcopy", "-O", "binary", "-j", ".text", f"{name}.elf", f"{name}.page"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    image = folder / f"{name}.bin"
    image.write_bytes((folder / f"{name}.page").read_bytes().rjust(64 << 10, b"\0"))
    return image
