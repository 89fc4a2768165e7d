"""For how long what hosts say could be kept: nobody's silence counts for which nobody listened."""

from __future__ import annotations

import time
from collections.abc import Callable


class Listening:
    """What the parts of one controller found of the store, together. For several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self._away: float | None = None

    def away(self) -> None:
        """The store is away at this moment."""
        self._away = self._clock()

    def since_outage(self) -> float | None:
        """Seconds since the store was last away; None where it never was."""
        away = self._away
        return None if away is None else self._clock() - away

    def seconds(self) -> float:
        """Seconds for which this controller has listened."""
        away = self._away
        return self._clock() - (self._began if away is None else away)
