"""Puts an agent together from its configuration."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from memhint.agent.applied import Applied
from memhint.agent.balloon_reads import BalloonReads
from memhint.agent.cycle import Audit, Cycle, Identity, Parts, Samples, StateStore
from memhint.agent.dedup_worker import DedupWorker
from memhint.agent.deep_reads import DeepReads
from memhint.agent.discarded import Discarded
from memhint.agent.guests import Guests, GuestTiming
from memhint.agent.nova_files import NovaFiles
from memhint.agent.observer import Observer
from memhint.agent.policies import Policies, PolicyStore
from memhint.agent.processes import Processes
from memhint.agent.reclaim_work import ReclaimStore
from memhint.agent.reclaims import Reclaims
from memhint.agent.runner import Runner
from memhint.agent.settings import dedup_settings, ksm_pace, planner_settings, slot, swap_out_settings
from memhint.bus.publisher import Publisher
from memhint.conf.policy import host_inputs
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.process import process_memory
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers.balloon import BalloonLever
from memhint.levers.dedup import DedupLever
from memhint.levers.qos import QosLever
from memhint.levers.swap_out import SwapOutLever
from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.ownership import Ledger
from memhint.objects.report import STALE_PERIODS
from memhint.pages.samples import PageSamples
from memhint.planner.plan import PlannerState, start
from memhint.version import version
from memhint.virt.agent_command import AgentConnections
from memhint.virt.balloon import BalloonTarget
from memhint.virt.caller import Caller
from memhint.virt.config import NextBoot
from memhint.virt.connection import Connection, DomainEvent, Event
from memhint.virt.definitions import Definitions
from memhint.virt.monitor import Monitor
from memhint.virt.stats import read_stats

MERGE_TIMEOUT = 300.0  # seconds: switching merge off copies every merged page of the guest


@dataclass(frozen=True, slots=True)
class Stores:
    """The store, as far as the agent uses it."""

    policies: PolicyStore
    ledger: Ledger
    publisher: Publisher
    audit: Audit
    states: StateStore
    reclaims: ReclaimStore


@dataclass(frozen=True, slots=True)
class Agent:
    """A cycle that is ready to run, and what must be closed after it."""

    cycle: Cycle
    parts: Parts
    samples: PageSamples
    counters: BalloonReads
    definitions: Definitions
    connections: tuple[Connection | AgentConnections, ...]

    def inherit(self, before: Agent) -> None:
        """Go on from what an earlier agent of this process saw of the same libvirt's VMs."""
        self.parts.observer.inherit(before.parts.observer)
        self.definitions.inherit(before.definitions)
        self.cycle.inherit(before.cycle)

    def settled(self) -> bool:
        """Whether every guest has been asked and no pass of a worker is under way."""
        workers = (self.parts.worker, self.parts.balloon, self.parts.swap_out)
        return self.parts.guests.settled() and all(worker.settle(0) for worker in workers)

    def close(self) -> None:
        """Let go of everything. Nothing that hangs is waited for; a reclaim under way ends after its call."""
        self.parts.reclaims.close()
        self.parts.swap_out.stop(0)
        self.parts.guests.close()
        self.parts.deep.close()
        self.counters.close()
        self.samples.close()
        for connection in self.connections:
            connection.close()


def host_boot(root: KernelRoot) -> str:
    """A name for this boot of the host."""
    return root.read_text("proc/sys/kernel/random/boot_id").strip()


def build(
    conf: cfg.ConfigOpts,
    stores: Stores,
    epoch: str,
    *,
    wake: Callable[[], None] = lambda: None,
    state: PlannerState | None = None,
    sequence: int = 0,
    worker: DedupWorker | None = None,
    dry_run: bool = False,
    root: KernelRoot | None = None,
    samples: Samples | None = None,
    applied: Applied | None = None,
) -> Agent:
    """An agent.

    :param wake: called when something happened that the next cycle should not wait for
    :param state: what the planner remembers of an earlier agent
    :param samples: of an earlier agent of this process, which has looked at the VMs; for a dry run, who estimates
    :param worker: of an earlier agent of this process, which may have a pass under way
    :param applied: of that agent, where its worker notes what it does
    """
    root = root or KernelRoot()
    settings = planner_settings(conf)
    applied = applied or Applied()

    def listen(event: Event) -> None:
        definitions.invalidate(event.uuid)
        if event.kind is DomainEvent.AGENT and event.uuid:
            guests.changed(event.uuid)
        wake()

    connection = Connection(conf.virt.uri, listen)
    monitors = Connection(conf.virt.uri)
    counting = Connection(conf.virt.uri)
    agents = AgentConnections(conf.virt.uri)
    caller = Caller(connection, conf.virt.stats_timeout)
    slow_caller = Caller(monitors, MERGE_TIMEOUT)
    counting_caller = Caller(counting, conf.virt.stats_timeout)
    definitions = Definitions(caller, conf.virt.refresh)
    guests = Guests(
        agents.conversation,
        lambda uuid: NextBoot(caller, uuid),
        stores.ledger,
        GuestTiming(
            interval=conf.guest.interval,
            call_timeout=conf.guest.call_timeout,
            conversation_timeout=conf.guest.conversation_timeout,
            in_flight=conf.guest.in_flight,
            backoff_base=conf.guest.backoff_base,
            backoff_max=conf.guest.backoff_max,
        ),
        conf.reporting.order,
        enabled=conf.guest.enabled,
        dry_run=dry_run,
        note=applied.note,
    )

    def footprint(domain: DomainObservation) -> int | None:
        """What this very process costs now; None where it is another one by now."""
        if domain.process is None:
            return None
        try:
            memory = process_memory(root, domain.process.pid, PAGE_SIZE)
        except KernelInterfaceError:
            return None
        return memory.footprint if memory.instance == domain.process.instance else None

    reclaims = Reclaims(
        guests, stores.reclaims, footprint, at_once=conf.guest.in_flight, hold_every=conf.guest.interval
    )
    deep = DeepReads(root, PAGE_SIZE, conf.observe.deep_cpu_percent, conf.observe.deep_interval)
    looks = PageSamples(
        root,
        PAGE_SIZE,
        conf.dedup.estimate_cpu_percent,
        conf.dedup.estimate_interval,
        conf.dedup.estimate_settle,
        ksm_pace(conf),
    )
    if isinstance(samples, PageSamples) and not dry_run:
        looks.inherit(samples)
    boot = host_boot(root)

    def reserve(host: HostObservation) -> int:
        return settings.reserve_of(host.pool)

    dedup = DedupLever(
        root,
        stores.ledger,
        lambda uuid: Monitor(slow_caller, uuid),
        dedup_settings(conf),
        boot,
        reserve,
        time.time,
    )
    counters = BalloonReads(lambda uuid: Monitor(counting_caller, uuid), conf.guest.interval, conf.guest.max_age)
    # Asking QEMU's monitor taints the VM: not without the operator's leave, and not in a dry run.
    counted = conf.dedup.allow_monitor_commands and not dry_run
    slack = conf.guest.conversation_timeout + conf.guest.call_timeout
    observer = Observer(
        root,
        lambda: read_stats(caller),
        definitions,
        Processes(root, Path(conf.virt.run_dir), PAGE_SIZE),
        deep,
        guests.news,
        memory_cgroup=conf.host.memory_cgroup or None,
        pressure_cgroup=conf.host.pressure_cgroup or None,
        guest_max_age=conf.guest.max_age,
        list_max_age=STALE_PERIODS * conf.period,
        discarded=Discarded(counters, slack).join if counted else tuple,
    )
    parts = Parts(
        observer,
        Policies(stores.policies, host_inputs(conf), dry_run=dry_run),
        guests,
        reclaims,
        deep,
        samples if dry_run and samples is not None else looks,
        dedup,
        worker or DedupWorker(applied.note),
        Runner(
            BalloonLever(stores.ledger, lambda uuid: BalloonTarget(caller, uuid), time.time),
            dry_run=dry_run,
            note=applied.note,
        ),
        QosLever(root, stores.ledger, boot, time.time),
        Runner(
            SwapOutLever(root, swap_out_settings(conf), time.monotonic),
            dry_run=dry_run,
            note=applied.note,
        ),
        NovaFiles(root, conf.nova.compute_id, conf.nova.config_files),
        stores.publisher,
        stores.audit,
        stores.states,
        stores.ledger,
        applied,
    )
    cycle = Cycle(
        Identity(conf.host_name, epoch, boot, version()),
        parts,
        settings,
        slot(conf),
        state or start(settings),
        allow_cross_tenant=conf.dedup.allow_cross_tenant,
        sequence=sequence,
        dry_run=dry_run,
    )
    deep.start()
    if counted:
        counters.start()
    connections = (connection, monitors, counting, agents)
    if not dry_run:
        looks.start()
    return Agent(cycle, parts, looks, counters, definitions, connections)
