"""Judges what hosts promised by what came: a host in each turn, so that no turn takes long."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

from memhint.planner.backtest import HOUR, judged
from memhint.store.history import History
from memhint.store.promises import Promises

LOG = logging.getLogger(__name__)

PATIENCE = 900.0  # seconds after an hour's end in which an agent may still tell of it


class Judge:
    """One turn after the other, as many controllers as there are: an hour is judged once."""

    def __init__(self, promises: Promises, history: History, wall: Callable[[], float] = time.time) -> None:
        self._promises = promises
        self._history = history
        self._wall = wall
        self.counts: Counter[str] = Counter()  # held, broken

    def round(self) -> bool:
        """Judge the hours of one host, where one is due. Whether one was.

        :raises StoreError: when the database fails
        """
        due = self._promises.due()
        if due is None:
            return False
        until = (self._wall() - PATIENCE) // HOUR * HOUR
        # Later than now it is where a clock was wrong: then nothing would be judged until that time has come.
        known = due.since if due.since <= until + HOUR else 0.0
        if until > known:
            # Of what is older only the worst of each hour is kept, which does not say how it began.
            since = max(known, until - self._history.keep.five_minutes)
            points = self._history.of(due.host, since, until)
            hours = self._promises.add(due.host, judged(points, due.reserve), until)
            broken = [one for one in hours if not one.held]
            self.counts["broken"] += len(broken)
            self.counts["held"] += len(hours) - len(broken)
            if broken:
                worst = min(broken, key=lambda one: one.came - one.promised)
                LOG.warning(
                    "%s did not keep its promise in %d of %d hours: at worst %d MiB were promised and %d were there",
                    due.host,
                    len(broken),
                    len(hours),
                    worst.promised >> 20,
                    max(0, worst.came) >> 20,
                )
        return True
