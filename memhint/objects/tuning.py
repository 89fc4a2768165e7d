"""How free page reporting should work in a guest where it is on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Tuning:
    """None leaves a setting as the guest has it, and undoes what memhint changed of it.

    ``order``: the smallest block that is reported, 4 KiB shifted by it. ``delay_ms``: milliseconds between two passes.

    The others are occasions and no settings: two that differ in them are equal. ``flush``: what is free may be reported
    at once, instead of with the next pass, when a setting changes or the guest came to rest. ``rests``: how often the
    guest did since it was tuned; after one more it is asked again.
    """

    order: int | None = None
    delay_ms: int | None = None
    flush: bool = field(default=False, compare=False)
    rests: int = field(default=0, compare=False)

    @property
    def empty(self) -> bool:
        """True where nothing is wished."""
        return self.order is None and self.delay_ms is None


GUESTS_OWN = Tuning()
"""What the guest has by itself."""
