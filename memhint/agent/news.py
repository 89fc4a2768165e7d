"""Publishes the result of a cycle: the report to its subscribers, and each new outcome of a pull to the event log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from memhint.agent.parts import Audit
from memhint.bus.publisher import Publisher
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.report import Report
from memhint.objects.verdict import Verdict
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class News:
    """Remembers what it told last, so that it tells each outcome once."""

    def __init__(self, publisher: Publisher, audit: Audit) -> None:
        self._publisher = publisher
        self._audit = audit
        self._told: dict[tuple[LeverName, str], Verdict] = {}

    def inherit(self, before: News) -> None:
        """Go on from what an earlier agent of this process has told."""
        self._told = before._told

    def tell(self, report: Report, done: Sequence[tuple[float, LeverState]]) -> None:
        """Publish it, and write down what is new.

        :param done: what was done before the report was made, and when
        """
        self._publisher.publish(report)
        levers = [*report.levers, *(state for one in report.domains for state in one.levers)]
        before, self._told = self._told, {(state.lever, state.subject): state.verdict for state in levers}
        news = [(report.at, state) for state in levers if before.get((state.lever, state.subject)) != state.verdict]
        for at, state in done:
            # Shown by this report or the one before, it is told already; else another pass has come over it since.
            key = (state.lever, state.subject)
            if state.verdict not in (before.get(key), self._told.get(key)):
                news.insert(0, (at, state))
        for _, one in news:
            LOG.info("%s of %s: wished %s, seen %s: %s", one.lever, one.subject, one.desired, one.observed, one.verdict)
        for at, told in groupby(sorted(news, key=itemgetter(0)), key=itemgetter(0)):
            self._record(report.host, at, [state for _, state in told])
        if not news:
            self._record(report.host, report.at, [])  # what waits from an earlier cycle

    def _record(self, host: str, at: float, states: Sequence[LeverState]) -> None:
        """Each by itself: what one does not get written down must not keep the next from being handed over."""
        try:
            self._audit.record(host, at, states)
        except StoreError as error:
            LOG.error("working on without the store: %s", error)
