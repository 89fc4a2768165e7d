"""Puts an agent together from its configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oslo_config import cfg

from memhint.agent.active_reads import ActiveReads
from memhint.agent.applied import Applied
from memhint.agent.balloon_reads import BalloonReads
from memhint.agent.build_active import build_active
from memhint.agent.build_dedup import page_samples
from memhint.agent.build_levers import STAYING, TRAVELLING, build_levers
from memhint.agent.build_virt import Virt, build_virt
from memhint.agent.cycle import Cycle
from memhint.agent.deep_reads import DeepReads
from memhint.agent.discarded import Discarded
from memhint.agent.guests import Guests, GuestTiming
from memhint.agent.nova_files import NovaFiles
from memhint.agent.observer import Observer
from memhint.agent.parts import Identity, Parts, Samples, Stores
from memhint.agent.policies import Policies
from memhint.agent.processes import Processes
from memhint.agent.runners.runner import RunnerContext
from memhint.agent.settings import planner_settings, slot
from memhint.agent.travelling_marks import TravellingMarks
from memhint.conf.policy import host_inputs
from memhint.kernel.boot import host_boot
from memhint.kernel.clearings import Clearings
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers.arrivals import Arrivals
from memhint.objects.ownership import Mark
from memhint.objects.report import STALE_PERIODS
from memhint.objects.units import MIB
from memhint.pages.samples import PageSamples
from memhint.planner.state import PlannerState, start
from memhint.version import version
from memhint.virt.agent_command import AgentConnections
from memhint.virt.connection import Connection, DomainEvent, Event
from memhint.virt.definitions import Definitions
from memhint.virt.marks import DomainMarks
from memhint.virt.monitor import Monitor
from memhint.virt.stats import read_stats

# With a new connection: what started while there was none was told to nobody.
_ARRIVALS = frozenset({DomainEvent.STARTED, DomainEvent.PLUGGED, DomainEvent.CONNECTED})
# After these a domain may have another definition for its next start.
_REDEFINED = frozenset({DomainEvent.LIFECYCLE, DomainEvent.STARTED, DomainEvent.CONNECTED})
_LEAVING = 15.0  # seconds: a reading of active memory under way ends with its window


@dataclass(frozen=True, slots=True)
class Agent:
    """A cycle that is ready to run, and what must be closed after it."""

    cycle: Cycle
    parts: Parts
    guests: Guests
    samples: PageSamples
    counters: BalloonReads
    discarded: Discarded
    active: ActiveReads
    arrivals: Arrivals
    definitions: Definitions
    connections: tuple[Connection | AgentConnections, ...]

    def inherit(self, before: Agent) -> None:
        """Go on from what an earlier agent of this process saw of the same libvirt's VMs."""
        self.parts.observer.inherit(before.parts.observer)
        self.counters.inherit(before.counters)
        self.discarded.inherit(before.discarded)
        self.definitions.inherit(before.definitions)
        self.parts.marks.inherit(before.parts.marks)
        self.cycle.inherit(before.cycle)

    def settle(self, timeout: float) -> bool:
        """Wait for passes under way, ``timeout`` seconds at most; whether all that was begun has an outcome."""
        until = time.monotonic() + timeout
        return all([runner.settle(max(0.0, until - time.monotonic())) for runner in self.parts.runners])

    def close(self) -> None:
        """Let go of everything. Nothing that hangs is waited for; a reclaim under way ends after its call."""
        for runner in reversed(self.parts.runners):
            runner.close()
        self.parts.deep.close()
        self.active.close(_LEAVING)
        self.counters.close()
        self.samples.close()
        for connection in self.connections:
            connection.close()


def build(
    conf: cfg.ConfigOpts,
    stores: Stores,
    epoch: str,
    *,
    wake: Callable[[], None] = lambda: None,
    state: PlannerState | None = None,
    before: Agent | None = None,
    dry_run: bool = False,
    root: KernelRoot | None = None,
    samples: Samples | None = None,
) -> Agent:
    """An agent, its threads begun.

    :param wake: called when something happened that the next cycle should not wait for
    :param state: what the planner remembers of an earlier process
    :param before: an earlier agent of this process: what it began is not begun beside it
    :param samples: for a dry run, who estimates
    """
    root = root or KernelRoot()
    settings = planner_settings(conf)
    applied = before.parts.applied if before is not None else Applied()
    arrivals = before.arrivals if before is not None else Arrivals()

    def listen(event: Event) -> None:
        virt.definitions.invalidate(event.uuid)
        if event.kind in _ARRIVALS:
            arrivals.note()
            for runner in parts.runners:
                runner.arrived()
        if event.kind in _REDEFINED:
            for runner in parts.runners:
                runner.redefined(event.uuid)
        if event.kind is DomainEvent.AGENT and event.uuid:
            guests.changed(event.uuid)
        elif event.kind is DomainEvent.CONNECTED:
            guests.changed_unseen()
        # The cycle that makes a connection goes on with it. Where each cycle makes one, as with a libvirtd that ends
        # again and again, they must not follow each other at once, with all that a new connection has read again.
        if event.kind is not DomainEvent.CONNECTED:
            wake()

    virt = build_virt(conf, listen)
    carry = _carry_nothing if dry_run else DomainMarks(virt.counting).write
    marks = TravellingMarks(stores.ledger, carry, TRAVELLING, STAYING)
    stores = replace(stores, ledger=marks)
    guests = _build_guests(conf, virt)
    looks = page_samples(conf, root)
    if before is not None and not dry_run:
        looks.inherit(before.samples)
    deep = DeepReads(root, PAGE_SIZE, conf.observe.deep_cpu_percent, conf.observe.deep_interval)
    counters = BalloonReads(lambda uuid: Monitor(virt.counting, uuid), conf.guest.interval, conf.guest.max_age)
    discarded = Discarded(counters, conf.guest.conversation_timeout + conf.guest.call_timeout)
    # Asking QEMU's monitor taints the VM: not without the operator's leave, and not in a dry run.
    counted = conf.virt.allow_monitor_commands and not dry_run
    boot = host_boot(root)
    clearings = Clearings()
    active = build_active(conf, root, stores.ledger, boot, clearings, dry_run=dry_run)
    levers = RunnerContext(
        conf=conf,
        settings=settings,
        root=root,
        boot=boot,
        ledger=stores.ledger,
        caller=virt.caller,
        slow=virt.slow,
        counting=virt.counting,
        clearings=clearings,
        heat=active.heat,
        ranges=looks.ranges,
        arrivals=arrivals,
        guests=guests,
        reclaims=stores.reclaims,
        note=applied.note,
        dry_run=dry_run,
    )
    parts = Parts(
        observer=_build_observer(conf, root, virt, guests, deep, discarded if counted else None, active, arrivals),
        policies=Policies(stores.policies, host_inputs(conf), dry_run=dry_run),
        samples=samples if dry_run and samples is not None else looks,
        runners=build_levers(levers),
        deep=deep,
        nova=NovaFiles(root, conf.nova.compute_id, conf.nova.config_files),
        publisher=stores.publisher,
        audit=stores.audit,
        states=stores.states,
        marks=marks,
        applied=applied,
        growth=stores.growth,
    )
    if before is not None:
        for runner, old in zip(parts.runners, before.parts.runners, strict=True):
            runner.inherit(old)
    cycle = Cycle(
        Identity(conf.host_name, epoch, boot, version()),
        parts,
        settings,
        slot(conf),
        before.cycle.state if before is not None else state or start(settings),
        sequence=before.cycle.sequence if before is not None else 0,
        dry_run=dry_run,
    )
    deep.start()
    active.start()
    if counted:
        counters.start()
    if not dry_run:
        looks.start()
    return Agent(cycle, parts, guests, looks, counters, discarded, active, arrivals, virt.definitions, virt.connections)


def _carry_nothing(uuid: str, marks: Sequence[Mark]) -> None:
    """A dry run leaves domains as they are."""


def _build_guests(conf: cfg.ConfigOpts, virt: Virt) -> Guests:
    return Guests(
        virt.agents.conversation,
        GuestTiming(
            interval=conf.guest.interval,
            call_timeout=conf.guest.call_timeout,
            conversation_timeout=conf.guest.conversation_timeout,
            in_flight=conf.guest.in_flight,
            backoff_base=conf.guest.backoff_base,
            backoff_max=conf.guest.backoff_max,
        ),
        enabled=conf.guest.enabled,
    )


def _build_observer(
    conf: cfg.ConfigOpts,
    root: KernelRoot,
    virt: Virt,
    guests: Guests,
    deep: DeepReads,
    discarded: Discarded | None,
    active: ActiveReads,
    arrivals: Arrivals,
) -> Observer:
    return Observer(
        root,
        lambda: read_stats(virt.caller),
        virt.definitions,
        Processes(root, Path(conf.virt.run_dir), PAGE_SIZE),
        deep,
        guests.news,
        memory_cgroup=conf.host.memory_cgroup or None,
        pressure_cgroup=conf.host.pressure_cgroup or None,
        guest_max_age=conf.guest.max_age,
        list_max_age=STALE_PERIODS * conf.period,
        list_timeout=conf.virt.stats_timeout,
        overhead=conf.planner.overhead_mib * MIB,
        active=active,
        discarded=discarded.join if discarded is not None else tuple,
        arrivals=lambda: arrivals.count,
    )
