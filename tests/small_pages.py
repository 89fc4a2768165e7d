"""memhint-small-pages for tests: built of its source as tools/stage builds it."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "emulator" / "small_pages.c"


def built(folder: Path, qemu: Path | None = None, *flags: str) -> Path:
    """The program. It becomes the distribution's QEMU, or `qemu` where that is given."""
    program = folder / "memhint-small-pages"
    named = () if qemu is None else (f'-DQEMU="{qemu}"',)
    words = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", *flags, *named, "-o", str(program), str(SOURCE)]
    subprocess.run(words, check=True)
    return program
