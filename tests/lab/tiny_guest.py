"""A guest of a few instructions, in place of a BIOS, for a QEMU that emulates within emulation."""

from __future__ import annotations

import subprocess
from pathlib import Path


def tiny_guest(folder: Path, size: int, rests: bool = False) -> Path:
    """Assemble it: 64 KiB that end with the guest's page.

    :param size: bytes of its memory, of which it writes to every page
    :param rests: it halts its processor then, in place of waiting for a byte on its serial line
    """
    words = [f"-DEND={size:#x}", *(["-DRESTS"] if rests else [])]
    for command in (
        ["gcc", "-m32", "-c", *words, "-o", "guest.o", str(Path(__file__).with_name("tiny_guest.S"))],
        ["ld", "-m", "elf_i386", "-Ttext", "0xfffff000", "-o", "guest.elf", "guest.o"],
        ["objcopy", "-O", "binary", "-j", ".text", "guest.elf", "guest.page"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    image = folder / "tiny_guest.bin"
    image.write_bytes((folder / "guest.page").read_bytes().rjust(64 << 10, b"\0"))
    return image
