"""Whether a figure that is looked at again and again has come to rest."""

from __future__ import annotations

import time
from collections.abc import Callable


class Still:
    """One figure."""

    def __init__(self, seconds: float, within: int, clock: Callable[[], float] = time.monotonic) -> None:
        """:param seconds: that it must stay
        :param within: by which it may differ meanwhile
        """
        self._seconds, self._within, self._clock = seconds, within, clock
        self._value: int | None = None
        self.changed = clock()
        """When it last moved, on the clock."""

    def at_rest(self, value: int) -> bool:
        """Whether it has stayed where it is now for long enough."""
        if self._value is None or abs(value - self._value) > self._within:
            self._value, self.changed = value, self._clock()
        return self._clock() - self.changed >= self._seconds
