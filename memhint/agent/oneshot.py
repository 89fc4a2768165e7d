"""One look and one plan, with nothing pulled and nothing written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from oslo_config import cfg

from memhint.agent.build import Agent, Stores, build
from memhint.agent.reclaims import NoRequests
from memhint.agent.service import remembered_state
from memhint.objects.lever import LeverState
from memhint.objects.ownership import Ledger, Mark
from memhint.objects.policy import Origin
from memhint.objects.report import Report
from memhint.planner.plan import PlannerState
from memhint.store.database import open_store
from memhint.store.errors import StoreMissing

POLL = 0.05  # seconds


class _Nothing:
    """A store that keeps nothing."""

    def publish(self, report: Report) -> None:
        """Drop it."""

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Drop them."""

    def save(self, host: str, boot: str, state: PlannerState) -> None:
        """Drop it."""

    def inputs(self) -> dict[str, dict[Origin, dict[str, str]]]:
        """Nobody said anything."""
        return {}

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

    def all(self) -> tuple[Mark, ...]:
        """The marks that are there."""
        return self._ledger.all() if self._ledger else ()


def dry_run(conf: cfg.ConfigOpts) -> Report:
    """The report that the agent would make now, with the verdict that each lever would give.

    It goes on from what a running agent remembers, so that it shows the same plan; without one every VM is new. Waits
    for the guests, at most as long as one conversation may take.

    :raises StoreError: when there is a store that cannot be used
    :raises KernelInterfaceError: when the host's memory cannot be read
    """
    nothing = _Nothing()
    try:
        store = open_store(conf.store.url, host=conf.host_name, create=False)
    except StoreMissing:
        return _look(
            build(conf, Stores(nothing, _ReadOnly(None), nothing, nothing, nothing, NoRequests()), "", dry_run=True),
            conf,
        )
    try:
        stores = Stores(store.policies, _ReadOnly(store.marks), nothing, nothing, nothing, NoRequests())
        state = remembered_state(store, conf)
        return _look(build(conf, stores, "", state=state, dry_run=True), conf)
    finally:
        store.close()


def _look(agent: Agent, conf: cfg.ConfigOpts) -> Report:
    """The first cycle begins the conversations and the dedup pass; the second shows what they brought."""
    try:
        state = agent.cycle.state
        agent.cycle.run()
        until = time.monotonic() + conf.guest.conversation_timeout
        while not agent.settled() and time.monotonic() < until:
            time.sleep(POLL)
        agent.cycle.state = state  # the same moment again, not a second one
        return agent.cycle.run()
    finally:
        agent.close()
