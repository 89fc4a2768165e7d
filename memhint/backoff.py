"""How long to wait before what failed is tried again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """A pause that doubles with every failure in a row. Seconds."""

    base_s: float = 5.0
    limit_s: float = 300.0

    def pause_s(self, failures: int) -> float:
        """The pause after so many failures in a row; none after none."""
        if failures <= 0:
            return 0.0
        # Something may fail for months: bound the exponent before the power, not the result.
        return min(self.limit_s, self.base_s * 2.0 ** min(failures - 1, 64))
