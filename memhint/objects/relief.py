"""What is asked of VMs in one cycle: by the pressure ladder, by policy, and of VMs of a calm host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memhint.objects.lever import LeverName
from memhint.objects.tuning import Tuning


@dataclass(frozen=True, slots=True)
class Relief:
    """Wishes by domain UUID; bytes. What is not named is left as it is, or put back."""

    tuning: Mapping[str, Tuning] = field(default_factory=dict)  # policy's own wishes are in it too
    cache: Mapping[str, int] = field(default_factory=dict)  # page cache to give back
    recycler: Mapping[str, int] = field(default_factory=dict)  # bytes per second of single free pages to give back
    balloon: Mapping[str, int] = field(default_factory=dict)  # memory that the VM is left with
    swap_out: Mapping[str, int] = field(default_factory=dict)  # memory to send to swap
    thp: Mapping[str, int] = field(default_factory=dict)  # memory to make huge pages of
    dedup: bool = False  # merge where it is left to memhint and pays
    migrate: str | None = None  # whom to move away

    def of(self, lever: LeverName) -> Mapping[str, int]:
        """What a lever that is asked for bytes of VMs is asked for: the field that bears its name."""
        wishes: Mapping[str, int] = getattr(self, lever)
        return wishes


NO_RELIEF = Relief()
"""Nothing."""
