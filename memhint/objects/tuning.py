"""How free page reporting should work in a guest where it is on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """None leaves a setting as the guest has it, and undoes what memhint changed of it.

    ``order``: the smallest block that is reported, 4 KiB shifted by it. ``delay_ms``: milliseconds between two passes.
    ``flush``: what is free is reported at once when a setting changes, instead of with the next pass.
    """

    order: int | None = None
    delay_ms: int | None = None
    flush: bool = False

    @property
    def empty(self) -> bool:
        """True where nothing is wished."""
        return self.order is None and self.delay_ms is None


GUESTS_OWN = Tuning()
"""What the guest has by itself."""
