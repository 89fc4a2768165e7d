"""The machines that guests under test run on, one for each architecture that kernels are built for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lab.emulated_cpu import EMULATED_CPU


@dataclass(frozen=True, slots=True)
class Machine:
    """What QEMU is told."""

    emulator: str
    name: str
    cpu: str
    console: str
    kernel: str
    """The file in the folder of `kernel/build`."""


PC = Machine("qemu-system-x86_64", "q35", EMULATED_CPU, "ttyS0", "bzImage")
MACHINES = {
    "amd64": PC,
    "arm64": Machine("qemu-system-aarch64", "virt", "cortex-a57", "ttyAMA0", "Image"),
}


def machine_of(image: Path) -> Machine:
    """The machine that the kernel of a folder of `kernel/build` was built for."""
    manifest = json.loads((image / "manifest.json").read_text())
    return MACHINES[manifest.get("arch", "amd64")]
