"""Every lever of a host with what it works on, and the order in which they are pulled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from oslo_config import cfg

from memhint.agent.active_reads import ActiveReads
from memhint.agent.applied import Applied
from memhint.agent.build_virt import Virt
from memhint.agent.guests import Guests
from memhint.agent.parts import Stores
from memhint.agent.reclaims import Reclaims
from memhint.agent.runners.cache import CacheRunner
from memhint.agent.runners.host import HostRunner
from memhint.agent.runners.ladder import LadderShown
from memhint.agent.runners.qos import QosRunner
from memhint.agent.runners.reporting import ReportingRunner
from memhint.agent.runners.runner import LeverRunner
from memhint.agent.runners.vm import VmRunner
from memhint.agent.runners.wake import WakeRunner
from memhint.agent.settings import dedup_settings, swap_out_settings, thp_settings, tiering_settings
from memhint.kernel.clearings import Clearings
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.guest_advice import GuestAdvice
from memhint.kernel.host import read_memory
from memhint.kernel.huge_blocks import GuestBlocks
from memhint.kernel.process import process_memory
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.swap_reads import SwapQueue, SwapReads
from memhint.levers.balloon import BalloonLever
from memhint.levers.dedup import DedupLever
from memhint.levers.khugepaged import KhugepagedLever
from memhint.levers.lever import Stop
from memhint.levers.qos import QosLever
from memhint.levers.read_ahead import ReadAhead, ReadAheadSettings, read_ahead
from memhint.levers.recycler import RecyclerLever
from memhint.levers.swap_out import SwapOutLever
from memhint.levers.thp import ThpLever
from memhint.levers.tiering import TieringLever
from memhint.levers.wake_room import wake_room
from memhint.levers.wake_watch import WakeWatch
from memhint.objects.domain import DomainObservation
from memhint.objects.host import HostObservation
from memhint.objects.ladder import Rung
from memhint.objects.report import STALE_PERIODS
from memhint.objects.units import MIB
from memhint.planner.dedup_ranges import RangeChoice
from memhint.planner.huge_host import huge_host
from memhint.planner.settings import PlannerSettings
from memhint.virt.balloon import BalloonTarget
from memhint.virt.monitor import Monitor
from memhint.virt.recycler import RecyclerKnobs


@dataclass(frozen=True)
class Readings:
    """What else of the agent's looks at VMs' memory, where a lever goes by it."""

    active: ActiveReads
    clearings: Clearings
    ranges: Callable[[str, str], RangeChoice | None]
    """What is worth merging of a VM's process, by UUID and instance."""


def build_levers(
    conf: cfg.ConfigOpts,
    root: KernelRoot,
    virt: Virt,
    guests: Guests,
    stores: Stores,
    settings: PlannerSettings,
    boot: str,
    applied: Applied,
    readings: Readings,
    *,
    dry_run: bool,
) -> tuple[LeverRunner, ...]:
    """Every lever, in the order in which they are pulled; undone in the reverse order.

    What takes long in being undone comes first, so that nothing waits for it.
    """

    def reserve(host: HostObservation) -> int:
        return settings.reserve_of(host.pool)

    def room() -> int:
        """What the host can give away and keep its reserve."""
        memory = read_memory(root, conf.host.memory_cgroup or None)
        return memory.available - settings.reserve_of(memory.total)

    def footprint(domain: DomainObservation) -> int | None:
        """What this very process costs now; None where it is another one by now."""
        if domain.process is None:
            return None
        try:
            memory = process_memory(root, domain.process.pid, PAGE_SIZE)
        except KernelInterfaceError:
            return None
        return memory.footprint if memory.instance == domain.process.instance else None

    dedup = DedupLever(
        root,
        stores.ledger,
        lambda uuid: Monitor(virt.slow, uuid),
        dedup_settings(conf),
        boot,
        reserve,
        time.time,
        readings.ranges,
    )
    balloon = BalloonLever(stores.ledger, lambda uuid: BalloonTarget(virt.caller, uuid), time.time)
    recycler = RecyclerLever(
        stores.ledger,
        lambda uuid: RecyclerKnobs(Monitor(virt.counting, uuid)),
        time.time,
        workers=conf.recycler.workers,
        period_ms=int(conf.recycler.period * 1000),
        allow_monitor_commands=conf.dedup.allow_monitor_commands,
    )
    swap_out = SwapOutLever(
        root, lambda instance: GuestAdvice(root, instance), readings.clearings, swap_out_settings(conf), time.monotonic
    )
    thp = ThpLever(
        root,
        lambda instance: GuestBlocks(root, instance),
        room,
        thp_settings(conf),
        time.monotonic,
        time.thread_time,
        time.sleep,
    )
    ahead = ReadAheadSettings(per_second=conf.swap_out.read_ahead_mib * MIB)
    reads = SwapReads(root)

    def wakes(instance: str, stop: Stop) -> ReadAhead:
        pid = int(instance.partition(":")[0])
        with GuestAdvice(root, instance) as guest:
            return read_ahead(
                guest,
                lambda: reads.of(pid),
                wake_room(root, pid, room),
                SwapQueue(root).waiting,
                ahead,
                clock=time.monotonic,
                sleep=time.sleep,
                stop=stop,
            )

    tiering = TieringLever(
        root, readings.active.heat, settings.node_reserve_of, tiering_settings(conf), time.monotonic, time.sleep
    )
    reclaims = Reclaims(
        guests, stores.reclaims, footprint, at_once=conf.guest.in_flight, hold_every=conf.guest.interval
    )
    return (
        HostRunner(dedup, lambda planned: planned.dedup, dry_run=dry_run, note=applied.note),
        VmRunner(balloon, lambda relief: relief.balloon, dry_run=dry_run, note=applied.note),
        QosRunner(
            QosLever(root, stores.ledger, boot, time.time),
            overhead=settings.overhead,
            reserve=settings.reserve_of,
            dry_run=dry_run,
        ),
        HostRunner(
            KhugepagedLever(
                root,
                stores.ledger,
                boot,
                time.time,
                own=conf.khugepaged.own,
                most=conf.khugepaged.max_ptes_none,
            ),
            huge_host,
            share=0.01,
            dry_run=dry_run,
            note=applied.note,
        ),
        VmRunner(recycler, lambda relief: relief.recycler, share=0.05, dry_run=dry_run, note=applied.note),
        VmRunner(swap_out, lambda relief: relief.swap_out, share=0.05, dry_run=dry_run, note=applied.note),
        WakeRunner(WakeWatch(reads, time.monotonic), wakes, enabled=bool(ahead.per_second) and not dry_run),
        HostRunner(
            tiering,
            lambda planned: planned.tiering,
            share=0.01,
            dry_run=dry_run,
            note=applied.note,
            interrupt=tiering.interrupt,
        ),
        VmRunner(thp, lambda relief: relief.thp, share=0.0, dry_run=dry_run, note=applied.note),
        ReportingRunner(guests),
        CacheRunner(
            reclaims,
            psi_limit=settings.ladder.psi_limit,
            hold_off=STALE_PERIODS * settings.period,
            always=Rung.CACHE in settings.ladder.always,
            dry_run=dry_run,
        ),
        LadderShown(),
    )
