"""What the emulator makes of cmpxchg16b, by which Linux takes memory from its slabs: why lab guests do not have it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from lab.cpio import Archive
from lab.image import build
from lab.programs import find

KNOWN = 0xCD5 | 0x202  # carry, parity, adjust, zero, sign, direction, overflow; interrupts allowed, and bit 1


def test_cmpxchg16b_leaves_flags_that_no_processor_has_before_qemu_8(tmp_path: Path) -> None:
    """The day this fails with an old QEMU it was mended there, and `cx16` may come back to domain_xml.py."""
    version = subprocess.run([find("qemu-system-x86_64"), "--version"], capture_output=True, text=True, check=True)
    major = int(re.findall(r"version (\d+)\.", version.stdout)[0])
    left = _flags(tmp_path)
    assert set(left) == {0, 0x40000, 0xDEADBEEF}
    strange = {term for term, flags in left.items() if flags & ~KNOWN}
    assert strange == ({0x40000, 0xDEADBEEF} if major < 8 else set())


def _flags(folder: Path) -> dict[int, int]:
    program = folder / "init"
    source = Path(__file__).with_name("cmpxchg16b.c")
    subprocess.run(["gcc", "-O1", "-static", "-s", "-o", program, source], check=True)
    archive = Archive()
    archive.directory("dev")
    archive.character_device("dev/console", 5, 1)
    archive.file("init", program.read_bytes(), 0o755)
    (folder / "initrd").write_bytes(archive.content())
    done = subprocess.run(
        [
            find("qemu-system-x86_64"), "-accel", "tcg", "-cpu", "max", "-m", "256", "-nodefaults", "-display", "none",
            "-no-reboot", "-serial", "stdio", "-kernel", build("6.12").kernel, "-initrd", folder / "initrd",
            "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
        ],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=300, check=False,
    )  # fmt: skip
    return {int(term, 16): int(flags, 16) for term, flags in re.findall(r"flags (0x\w+|0) (0x\w+)", done.stdout)}
