"""What one conversation with a guest brought home."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.guest.capabilities import Capabilities
from memhint.objects.gap import Gap
from memhint.objects.guest import GuestKernel, GuestMemory


@dataclass(frozen=True, slots=True)
class GuestReading:
    """The yield of a conversation; ``gaps`` names what is missing and why. ``at`` is unix seconds.

    ``instance`` is the VM's QEMU process as it was known then; empty where it was not.
    """

    at: float
    memory: GuestMemory | None = None
    kernel: GuestKernel | None = None
    capabilities: Capabilities | None = None
    gaps: tuple[Gap, ...] = ()
    instance: str = ""
