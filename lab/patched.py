"""The project's own kernels and guest agents, built from their patch series unless the cache has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from lab.errors import ImageError

_CHECKOUT = Path(__file__).resolve().parent.parent
KERNELS = {"6.12-memhint": "6.12", "6.1-memhint": "6.1"}
"""Names of patched kernels, and the series that is patched."""
AGENTS = ("stock", "memhint")


def kernel_folder(name: str) -> Path:
    """The folder with bzImage and config of a patched kernel; minutes the first time."""
    return _built([str(_CHECKOUT / "kernel" / "build"), "--version", KERNELS[name]], f"kernel {name}")


def agent_program() -> Path:
    """The patched qemu-ga; minutes the first time."""
    return _built([str(_CHECKOUT / "guest_agent" / "build")], "guest agent")


def _built(command: list[str], what: str) -> Path:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.split()
    if done.returncode or not lines:
        raise ImageError(f"the {what} could not be built; try it alone: {' '.join(command)}")
    return Path(lines[-1])
