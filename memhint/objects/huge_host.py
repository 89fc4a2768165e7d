"""What is wished of the host's kernel for huge pages, as far as it holds for all VMs alike."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.objects.lever import LeverName

NO_WAITING = "defer"  # of `defrag`: a first touch takes what is there, and the kernel compacts behind it


@dataclass(frozen=True, slots=True)
class HugeHost:
    """None leaves a setting as somebody else has it, and puts back what memhint changed of it."""

    by: tuple[LeverName, ...] = ()  # levers that leave holes in huge pages now, in the order of reports
    defrag: str | None = None  # a word of transparent_hugepage/defrag
    scan_sleep: int | None = None  # milliseconds between two rounds of khugepaged

    @property
    def empty(self) -> bool:
        """Whether nothing is wished."""
        return not self.by and self.defrag is None and self.scan_sleep is None
