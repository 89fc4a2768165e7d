"""The project's own kernels, guest agents and QEMU, built from their patch series unless the cache has them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab.errors import ImageError

_CHECKOUT = Path(__file__).resolve().parent.parent
KERNELS = {
    "6.12-memhint": "6.12",
    "6.1-memhint": "6.1",
    "7.3-memhint": "7.3",
    "6.12-plain": "6.12",
    "6.12-bitmap": "6.12",
    "6.12-recycler": "6.12",
}
"""Names of kernels that are built here, and the version that each is of."""
_SERIES = {"6.12-plain": "none", "6.12-bitmap": "bitmap", "6.12-recycler": "recycler"}
"""Those with other patches than memhint's guests have: none, for comparison, the bitmap of the proposal of 2019, or the
page recycler on top."""
WORDS = {"6.12-bitmap": ("page_reporting.bitmap=1",)}
"""What a kernel is told at boot besides what all are."""
_AGENT = [str(_CHECKOUT / "guest_agent" / "build")]
_HOST_KERNEL = [str(_CHECKOUT / "kernel" / "build"), "--series", "host"]
_EMULATOR = [str(_CHECKOUT / "qemu" / "build")]
AGENTS = ("stock", "memhint")
EMULATORS = ("stock", "memhint")


@dataclass(frozen=True)
class Pieces:
    """The three pieces that guests stand on, by the names that a lab takes: a kernel, a guest agent, a QEMU."""

    kernel: str
    agent: str
    emulator: str

    @property
    def patched(self) -> tuple[str, ...]:
        """Which of the three are the project's own."""
        mine = {"kernel": self.kernel in KERNELS, "agent": self.agent != "stock", "emulator": self.emulator != "stock"}
        return tuple(name for name, own in mine.items() if own)


def pieces_built(series: str = "6.12") -> Pieces:
    """The patched pieces as far as they are in the cache, the distribution's for the rest; builds nothing."""
    name = next(name for name, stock in KERNELS.items() if stock == series)
    return Pieces(
        name if _in_cache(_kernel_command(name)) else series,
        "memhint" if _in_cache(_AGENT) else "stock",
        "memhint" if _in_cache(_EMULATOR) else "stock",
    )


def build_pieces(series: str = "6.12") -> Pieces:
    """The patched pieces, all three; half an hour the first time.

    :raises ImageError: when one cannot be built
    """
    name = next(name for name, stock in KERNELS.items() if stock == series)
    kernel_folder(name)
    agent_program()
    emulator_program()
    return Pieces(name, "memhint", "memhint")


def all_built() -> bool:
    """Whether every piece is in the cache, whichever kernel is meant; builds nothing."""
    return all(map(_in_cache, (*map(_kernel_command, KERNELS), _HOST_KERNEL, _AGENT, _EMULATOR)))


def kernel_folder(name: str) -> Path:
    """The folder with bzImage and config of a patched kernel; minutes the first time."""
    return _built(_kernel_command(name), f"kernel {name}")


def host_kernel_folder() -> Path:
    """The folder with bzImage and config of the patched kernel for hosts; minutes the first time."""
    return _built(_HOST_KERNEL, "kernel for hosts")


def agent_program() -> Path:
    """The patched qemu-ga; minutes the first time."""
    return _built(_AGENT, "guest agent")


def emulator_program() -> Path:
    """The patched qemu-system-x86_64; minutes the first time."""
    return _built(_EMULATOR, "QEMU")


def _kernel_command(name: str) -> list[str]:
    series = ["--series", _SERIES[name]] if name in _SERIES else []
    return [str(_CHECKOUT / "kernel" / "build"), "--version", KERNELS[name], *series]


def _in_cache(command: list[str]) -> bool:
    """Whether it is built. Anything that stands in the way of an answer means that it is not."""
    return subprocess.run([*command, "--if-built"], capture_output=True, check=False).returncode == 0


def _built(command: list[str], what: str) -> Path:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.split()
    if done.returncode or not lines:
        raise ImageError(f"the {what} could not be built; try it alone: {' '.join(command)}")
    return Path(lines[-1])
