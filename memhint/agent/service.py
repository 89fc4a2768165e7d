"""The daemon's life: start, cycles on time, reload on SIGHUP, undo and stop on SIGTERM."""

from __future__ import annotations

import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING

from oslo_config import cfg

from memhint.agent.build import Agent, build
from memhint.agent.growth import Learnt
from memhint.agent.lock import HostLock
from memhint.agent.parts import Audit, PatientAudit, Stores
from memhint.agent.reclaim_store import ReclaimStore
from memhint.agent.retrying_audit import RetryingAudit
from memhint.agent.settings import planner_settings
from memhint.bus.inprocess import InProcessBus
from memhint.conf.errors import ConfigError
from memhint.conf.load import load
from memhint.conf.log import set_up
from memhint.kernel.boot import host_boot
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.host_stops import host_stops
from memhint.kernel.root import KernelRoot
from memhint.objects.epoch import new_epoch
from memhint.objects.lever import LeverState
from memhint.objects.report import STALE_PERIODS
from memhint.objects.units import MIB
from memhint.planner.resume import after_boot, long_ago
from memhint.planner.state import PlannerState
from memhint.store.errors import StoreDamaged, StoreError
from memhint.store.host_store import HostStore, open_host_store
from memhint.store.patience import BUSY_SECONDS
from memhint.store.rows.points import DomainKeep, Keep

if TYPE_CHECKING:
    from memhint.agent.metrics_server import AgentMetricsServer
    from memhint.bus.rabbit_publisher import RabbitPublisher

LOG = logging.getLogger(__name__)
UNDO_DEADLINE = 30.0  # seconds, for everything that stopping has to put back
LOOK = 1.0  # seconds between two looks at the host's memory alone
PASS = 5.0  # seconds that a reload waits for a pass under way
STORE_SHARE = 0.25  # of a period: so long a cycle waits while another process keeps the store
EVENT_SPACING = 0.5  # seconds between a cycle and one that an event asks for


class AgentService:
    """One agent process.

    :param log_file: where the command line has it log to; None where the configuration says
    """

    def __init__(self, conf: cfg.ConfigOpts, log_file: str | None = None) -> None:
        self._conf = conf
        self._log_file = log_file
        self._epoch = ""
        self._rabbit: RabbitPublisher | None = None
        self._learnt: Learnt | None = None
        self._metrics_server: AgentMetricsServer | None = None
        self._events: RetryingAudit | None = None
        self._wake = threading.Event()
        self._stop = False
        self._reload = False

    def run(self) -> int:
        """Serve until told to stop; 0 when everything that was changed has been put back, 1 otherwise.

        :raises AlreadyRunning: when this host has an agent
        :raises StoreError: when the store cannot be opened
        """
        lock = HostLock(self._conf.host_name)
        lock.take()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        store = self._open_store()
        try:
            before = store.reports.last_epoch(self._conf.host_name)
            self._epoch = new_epoch(time.time(), before, uuid.uuid4().hex[:8])
            self._learnt = Learnt(store.growth)
            self._rabbit = self._broker(store)
            self._metrics_server = self._metrics()
            return self._serve(store)
        finally:
            if self._metrics_server is not None:
                self._metrics_server.close()
            if self._rabbit is not None:
                self._rabbit.close()
            store.close()
            lock.release()

    def _serve(self, store: HostStore) -> int:
        agent = self._build(store, None)
        LOG.info("agent of %s, epoch %s, period %g s", self._conf.host_name, self._epoch, self._conf.period)
        while not self._stop:
            self._cycle(agent)
            if self._reload and not self._stop:
                self._reload = False
                agent = self._reloaded(agent, store)
        LOG.info("stopping: putting back what was changed")
        try:
            if host_stops():
                agent.cycle.end()  # before what may take so long that the host does not wait for it
            left = agent.cycle.undo(UNDO_DEADLINE)
            for problem in left:
                LOG.error("not put back: %s", problem)
        finally:
            agent.close()
        return 1 if left else 0

    def _cycle(self, agent: Agent) -> None:
        began = time.monotonic()
        self._wake.clear()
        try:
            agent.cycle.run()
        except KernelInterfaceError as error:
            self._failed()
            LOG.error("no plan in this cycle, the last one goes stale: %s", error)
        except Exception:
            # A defect in one cycle must not end the watch over the others.
            self._failed()
            LOG.exception("the cycle failed")
        self._rest(began, agent.cycle.alarmed)

    def _failed(self) -> None:
        if self._metrics_server is not None:
            self._metrics_server.metrics.failed()

    def _rest(self, began: float, alarmed: Callable[[], bool]) -> None:
        """Sleep until the period is over, or an event comes, but never run two cycles back to back.

        The host's memory is looked at every second meanwhile: a storm must not be seen a period late.
        """
        spacing = min(EVENT_SPACING, self._conf.period / 2)
        while not (self._stop or self._reload):
            elapsed, woken = time.monotonic() - began, self._wake.is_set()
            if elapsed >= self._conf.period or (woken and elapsed >= spacing):
                return
            if woken:
                # Only a signal has anything to say before the spacing is over.
                time.sleep(min(0.05, spacing - elapsed))
            else:
                self._wake.wait(min(LOOK, self._conf.period - elapsed))
                if not self._wake.is_set() and alarmed():
                    return

    def _reloaded(self, agent: Agent, store: HostStore) -> Agent:
        try:
            conf = load(self._conf.default_config_files or None)
        except ConfigError as error:
            LOG.error("the configuration was not reloaded, the old one holds: %s", error)
            return agent
        if _fixed(conf) != _fixed(self._conf):
            LOG.error("host_name, [store], [bus] and [metrics] listen need a restart; the old configuration holds")
            return agent
        try:
            set_up(conf, "agent", self._log_file)
        except ConfigError as error:
            set_up(self._conf, "agent", self._log_file)
            LOG.error("the configuration was not reloaded, the old one holds: %s", error)
            return agent
        # A pass under way would lose its connection, and what it was at would have failed.
        agent.settle(PASS)
        agent.close()
        same = conf.virt.uri == self._conf.virt.uri
        self._conf = conf
        LOG.info("configuration reloaded")
        built = self._build(store, agent)
        if same:
            built.inherit(agent)
        return built

    def _build(self, store: HostStore, before: Agent | None) -> Agent:
        bus = InProcessBus()
        if self._events is None:
            self._events = RetryingAudit(store.events)
        audit: PatientAudit = self._events
        reclaims: ReclaimStore = store.reclaims
        if self._rabbit is not None:
            # First, for it never waits: a store that somebody keeps must not keep the fleet from being told.
            bus.subscribe("broker", self._rabbit.publish)
        bus.subscribe("store", store.reports.save)
        if self._rabbit is not None:
            from memhint.agent.commands import ReportedReclaims

            audit = AuditBoth(audit, self._rabbit)
            reclaims = ReportedReclaims(store.reclaims, self._rabbit.reclaim)
        if self._metrics_server is not None:
            bus.subscribe("metrics", self._metrics_server.metrics.take)
            self._metrics_server.watch(bus)
            audit = AuditBoth(audit, self._metrics_server.metrics)
        growth = self._learnt or Learnt(store.growth)
        stores = Stores(store.policies, store.marks, bus, audit, store.states, reclaims, growth)
        if before is None:
            state = remembered_state(store, self._conf)
            return build(self._conf, stores, self._epoch, wake=self._wake.set, state=state)
        return build(self._conf, stores, self._epoch, wake=self._wake.set, before=before)

    def _open_store(self) -> HostStore:
        options = self._conf.store
        return open_host_store(
            options.url,
            host=self._conf.host_name,
            keep=Keep.of(options),
            domain_keep=DomainKeep.of(options),
            busy=min(BUSY_SECONDS, self._conf.period * STORE_SHARE),
        )

    def _broker(self, store: HostStore) -> RabbitPublisher | None:
        options = self._conf.bus
        if not options.urls:
            return None
        # What a fleet needs, one host by itself does not load.
        from memhint.agent.commands import Commands
        from memhint.bus.rabbit_publisher import RabbitPublisher
        from memhint.bus.settings import link_settings
        from memhint.bus.spool import Spool

        spool = Spool(options.spool, options.spool_most, options.spool_mib * MIB)
        publisher = RabbitPublisher(
            link_settings(self._conf),
            self._conf.host_name,
            self._epoch,
            spool,
            flush=options.flush,
            handlers=Commands(store, self._wake.set, learnt=self._learnt).handlers,
        )
        try:
            # Whatever was kept here and not spooled when the last agent ended: to say it again changes nothing.
            for one in reversed(store.reclaims.newest()):
                publisher.reclaim(one)
        except StoreError as error:
            LOG.error("how earlier requests ended is not told: %s", error)
        publisher.start()
        return publisher

    def _metrics(self) -> AgentMetricsServer | None:
        if not self._conf.metrics.listen:
            return None
        # what it needs is loaded only where it is wanted
        from memhint.agent.metrics_server import AgentMetricsServer

        rabbit = self._rabbit
        return AgentMetricsServer(self._conf.metrics.listen, (lambda: rabbit.counts) if rabbit is not None else None)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._stop = True
        # The wake is left alone: this very thread may hold its lock just now, in `_rest`, which looks every second.


class AuditBoth:
    """The record of actions in the host's own store, and on its way to the fleet's."""

    def __init__(self, store: PatientAudit, broker: Audit) -> None:
        self._store = store
        self._broker = broker

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Write it down at both; the fleet's does not depend on the host's."""
        told = tuple(states)
        self._broker.record(host, at, told)
        self._store.record(host, at, told)

    def queue(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """As `record`, and the host's store is not tried now."""
        told = tuple(states)
        self._broker.record(host, at, told)
        self._store.queue(host, at, told)


def _fixed(conf: cfg.ConfigOpts) -> tuple[object, ...]:
    """What a running agent cannot change."""
    groups = (conf.store, conf.bus)
    return (conf.host_name, conf.metrics.listen, *(group[name] for group in groups for name in group))


def remembered_state(store: HostStore, conf: cfg.ConfigOpts) -> PlannerState | None:
    """What the planner of the last agent knew; after more than three periods, or a boot, only what VMs did.

    :raises StoreError: when the store cannot be read
    """
    boot = host_boot(KernelRoot())
    try:
        state = store.states.newest(conf.host_name, boot)
        last = store.states.of_last_boot(conf.host_name, boot) if state is None else None
    except StoreDamaged as error:
        LOG.warning("every VM counts as new: %s", error)
        return None
    if last is not None:
        before, ended = last
        away = None if ended is None else time.time() - ended
        if before.earned.days and away is None:
            LOG.warning("this host's last boot did not end in order: what it had earned is lost")
        return after_boot(before, time.monotonic(), planner_settings(conf), away)
    if state is None or state.at is None:
        return None
    return state if time.monotonic() - state.at <= STALE_PERIODS * conf.period else long_ago(state)


def run(conf: cfg.ConfigOpts, log_file: str | None = None) -> int:
    """Run the agent of this host until it is told to stop; the process's exit code.

    :param log_file: where the command line has it log to; None where the configuration says
    """
    return AgentService(conf, log_file).run()
