"""One look and one plan, with nothing pulled and nothing written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from oslo_config import cfg

from memhint.agent.build import Agent, build
from memhint.agent.growth import Learnt
from memhint.agent.parts import Stores
from memhint.agent.reclaim_store import NoRequests
from memhint.agent.service import remembered_state
from memhint.objects.estimate import DedupEstimate
from memhint.objects.lever import LeverState
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.policy import Origin
from memhint.objects.report import Report
from memhint.pages.candidates import Candidate
from memhint.planner.state import PlannerState
from memhint.store.database import Store, open_store
from memhint.store.errors import StoreMissing
from memhint.store.rows.policies import StoredPolicies

POLL = 0.05  # seconds
_TRIES = 3  # of a first cycle: libvirt's first answer may take longer than a cycle waits for it


class _Nothing:
    """A store that keeps nothing."""

    def publish(self, report: Report) -> None:
        """Drop it."""

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Drop them."""

    queue = record

    def save(self, host: str, boot: str, state: PlannerState, ended: float | None = None) -> None:
        """Drop it."""

    def of(self, uuids: Iterable[str]) -> StoredPolicies:
        """No guest was asked."""
        return StoredPolicies({}, {})

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """Drop them."""


class _ReadOnly:
    """The ledger as it is, or an empty one; what a dry run would mark is not kept."""

    def __init__(self, ledger: Ledger | None) -> None:
        self._ledger = ledger

    def put(self, mark: Mark) -> None:
        """Drop it."""

    def get(self, subject: str, knob: str) -> Mark | None:
        """The mark that is there."""
        return self._ledger.get(subject, knob) if self._ledger else None

    def remove(self, subject: str, knob: str) -> None:
        """Leave it."""

    def of(self, subject: str) -> tuple[Mark, ...]:
        """The marks that are there of one subject."""
        return self._ledger.of(subject) if self._ledger else ()

    def all(self) -> tuple[Mark, ...]:
        """The marks that are there."""
        return self._ledger.all() if self._ledger else ()


class _Told:
    """The estimate of a running agent."""

    def __init__(self, estimated: DedupEstimate | None) -> None:
        self._estimated = estimated

    def want(self, candidates: Mapping[str, Candidate]) -> None:
        """Nothing is looked at."""

    def newest(self) -> DedupEstimate | None:
        """What the agent said."""
        return self._estimated


def dry_run(conf: cfg.ConfigOpts) -> Report:
    """The report that the agent would make now, with the verdict that each lever would give.

    It goes on from what a running agent remembers, so that it shows the same plan; without one every VM is new. Waits
    for the guests, at most as long as one conversation may take.

    :raises StoreError: when there is a store that cannot be used
    :raises KernelInterfaceError: when the host's memory cannot be read
    """
    with stores_of(conf) as (stores, store):
        state = remembered_state(store, conf) if store is not None else None
        told = store.reports.newest(conf.host_name) if store is not None else None
        samples = _Told(told.dedup if told is not None else DedupEstimate())
        return _look(build(conf, stores, "", state=state, dry_run=True, samples=samples), conf)


@contextmanager
def stores_of(conf: cfg.ConfigOpts) -> Iterator[tuple[Stores, Store | None]]:
    """The policies and marks of this host's store, if there is one; what is written goes nowhere."""
    nothing = _Nothing()
    try:
        store = open_store(conf.store.url, host=conf.host_name, create=False)
    except StoreMissing:
        yield Stores(nothing, _ReadOnly(None), nothing, nothing, nothing, NoRequests()), None
        return
    try:
        marks, growth = _ReadOnly(store.marks), Learnt(store.growth)
        yield Stores(store.policies, marks, nothing, nothing, nothing, NoRequests(), growth), store
    finally:
        store.close()


def look_first(agent: Agent) -> None:
    """A first cycle, and another where it saw no VM because libvirt was late."""
    for _ in range(_TRIES):
        if not any(gap.what == "bulk statistics" for gap in agent.cycle.run().gaps):
            return


def _look(agent: Agent, conf: cfg.ConfigOpts) -> Report:
    """The first cycle begins the conversations and the dedup pass; the second shows what they brought."""
    try:
        state = agent.cycle.state
        look_first(agent)
        until = time.monotonic() + conf.guest.conversation_timeout
        while not agent.settle(0) and time.monotonic() < until:
            time.sleep(POLL)
        agent.cycle.state = state  # the same moment again, not a second one
        return agent.cycle.run()
    finally:
        agent.close()
