"""Publishes the result of a cycle: the report to its subscribers, and each new outcome of a pull to the event log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from memhint.agent.parts import PatientAudit
from memhint.bus.publisher import Publisher
from memhint.objects.lever import LeverName, LeverState
from memhint.objects.report import Report
from memhint.objects.verdict import Verdict
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)
KEPT = 10_000  # levers of VMs of which the last change is remembered: a VM that comes back still shows it


class News:
    """Tells each change once: each that was noted as it was made, and of those that a report shows the new ones."""

    def __init__(self, publisher: Publisher, audit: PatientAudit) -> None:
        self._publisher = publisher
        self._audit = audit
        self._told: dict[tuple[LeverName, str], Verdict] = {}
        self._done: dict[tuple[LeverName, str], Verdict] = {}  # the last of each that was noted as it was made

    def inherit(self, before: News) -> None:
        """Go on from what an earlier agent of this process has told."""
        self._told, self._done = before._told, before._done

    def tell(self, report: Report, done: Sequence[tuple[float, LeverState]]) -> None:
        """Publish it, and write down what is new.

        :param done: what was done since the last report, and when; at least all of it that this one shows
        """
        self._publisher.publish(report)
        levers = [*report.levers, *(state for one in report.domains for state in one.levers)]
        before, self._told = self._told, {_key(state): state.verdict for state in levers}
        self._done |= {_key(state): state.verdict for _, state in done}
        for old in list(self._done)[:-KEPT]:
            del self._done[old]
        shown = (one for one in levers if one.verdict not in (before.get(_key(one)), self._done.get(_key(one))))
        news = [*done, *((report.at, state) for state in shown)]
        for _, one in news:
            LOG.info("%s of %s: wished %s, seen %s: %s", one.lever, one.subject, one.desired, one.observed, one.verdict)
        groups = [(at, list(told)) for at, told in groupby(sorted(news, key=itemgetter(0)), key=itemgetter(0))]
        record = self._audit.record
        for at, told in groups or [(report.at, [])]:  # nothing new: what waits from an earlier cycle
            try:
                record(report.host, at, [state for _, state in told])
            except StoreError as error:
                LOG.error("working on without the store: %s", error)
                # A store that is kept by others is waited for once; the rest is handed over all the same.
                record = self._audit.queue


def _key(state: LeverState) -> tuple[LeverName, str]:
    return state.lever, state.subject
