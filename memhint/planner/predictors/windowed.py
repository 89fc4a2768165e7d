"""What predictors have in common that look back over a window."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.planner.past import Past, advance, slot_of


@dataclass(frozen=True, slots=True)
class Windowed:
    """Remembers the largest footprint of each of a window's slots."""

    window: float  # seconds

    @property
    def key(self) -> str:
        """See Predictor: slots of another width tell nothing."""
        return f"window/{self.window:g}"

    def first(self, instance: str, use: int, now: float) -> Past:
        """See Predictor."""
        return Past(instance, now, use, now, use, (use,), slot_of(now, self.window))

    def next(self, past: Past, use: int, now: float) -> Past:
        """See Predictor."""
        slot = max(past.slot, slot_of(now, self.window))
        slots = advance(past.slots, past.slot, slot, use)
        return Past(past.instance, past.first_seen, use, now, max(past.highest, use), slots, slot)
