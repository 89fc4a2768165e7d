"""What predictors have in common that look back over a window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memhint.planner.past import Past, advance, slot_of

_FRESH = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Windowed:
    """Remembers the largest footprint of each of a window's slots."""

    window: float  # seconds

    @property
    def key(self) -> str:
        """See Predictor: slots of another width tell nothing."""
        return f"window/{self.window:g}"

    def peak(self, slots: tuple[int, ...]) -> int:
        """What is remembered as the peak of these slots. They seldom change, so it is made only when they do."""
        return max(slots)

    def first(self, instance: str, use: int, now: float) -> Past:
        """See Predictor."""
        slots = (use,)
        return Past(instance, now, self.peak(slots), now, use, slots, slot_of(now, self.window))

    def next(self, past: Past, use: int, now: float) -> Past:
        """See Predictor."""
        slot = max(past.slot, slot_of(now, self.window))
        slots = advance(past.slots, past.slot, slot, use)
        if slots is past.slots:
            # As nearly always: a slot is far longer than a cycle. When the VM was seen last is kept to the minute: by
            # that it is known whether it has been away for long.
            return past if 0 <= now - past.at < _FRESH else replace(past, at=now)
        peak, highest = self.peak(slots), max(past.highest, use)
        return Past(past.instance, past.first_seen, peak, now, highest, slots, slot, past.memory, born=past.born)
