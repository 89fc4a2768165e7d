"""Many VMs without many guests: real processes and a real store, with libvirt and the guest agents as stand-ins."""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import NoReturn

from lab.waiting import wait_for
from memhint.agent.build_levers import TRAVELLING
from memhint.agent.cycle import Cycle
from memhint.agent.deep_reads import DeepReads
from memhint.agent.guest_reporting import GuestReporting
from memhint.agent.guests import Guests, GuestTiming
from memhint.agent.nova_files import NovaFiles
from memhint.agent.observer import Observer
from memhint.agent.parts import Identity, Parts
from memhint.agent.policies import Policies
from memhint.agent.processes import Processes
from memhint.agent.reclaims import Reclaims
from memhint.agent.retrying_audit import RetryingAudit
from memhint.agent.runners.cache import CacheRunner
from memhint.agent.runners.host import HostRunner
from memhint.agent.runners.ladder import LadderShown
from memhint.agent.runners.qos import QosRunner
from memhint.agent.runners.reporting import ReportingRunner
from memhint.agent.runners.vm import VmRunner
from memhint.agent.travelling_marks import TravellingMarks
from memhint.bus.inprocess import InProcessBus
from memhint.guest.errors import GuestAgentAbsent
from memhint.kernel.clearings import Clearings
from memhint.kernel.guest_advice import GuestAdvice
from memhint.kernel.process import instance_runs, process_is
from memhint.kernel.root import KernelRoot
from memhint.levers.balloon import BalloonLever
from memhint.levers.dedup import DedupLever, DedupSettings
from memhint.levers.qos import QosLever
from memhint.levers.swap_out import SwapOutLever, SwapOutSettings
from memhint.objects.domain import DomainFacts, DomainState
from memhint.objects.gap import Gap
from memhint.objects.units import GIB, KIB
from memhint.pages.samples import PageSamples
from memhint.planner.dedup_estimate import KsmPace
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from memhint.store.host_store import open_host_store
from memhint.virt.balloon import BalloonTarget
from memhint.virt.domain_xml import Definition
from memhint.virt.stats import DomainStats


class _Definitions:
    """Every VM's definition, as if libvirt had been asked before."""

    def __init__(self, uuids: Iterable[str]) -> None:
        facts = DomainFacts(memory=4 * GIB, balloon=True, reporting_offered=True, stats_period=10, guest_agent=True)
        self._all = {one: Definition(facts) for one in uuids}

    def read(self, uuids: Iterable[str], now: float) -> tuple[dict[str, Definition], dict[str, Gap]]:
        """What is asked for."""
        return self._all, {}

    def invalidate(self, uuid: str) -> None:
        """They never change."""


class _NextBoot:
    def reporting(self) -> str | None:
        """On, as Nova defines it."""
        return "on"

    def set_reporting(self, value: str | None) -> None:
        """Nothing to set."""

    def begins_anew(self) -> bool:
        """Nothing is saved."""
        return True


def _silent(request: str, timeout: int) -> str:
    raise GuestAgentAbsent("no guest behind this VM")


@contextmanager
def vm_processes(count: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """So many processes by UUID, which is on their command line, as on QEMU's. They end with the body."""
    started: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for number in range(count):
            one = str(uuid.UUID(int=number + 1))
            started[one] = subprocess.Popen(["sh", "-c", "read forever", "vm", one], stdin=subprocess.PIPE)
        for one, process in started.items():
            # Popen comes back a moment before the kernel shows the command line of what was begun.
            wait_for(partial(process_is, KernelRoot(), process.pid, one), 10.0, "a process to be begun")
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait()


class FakeFleet:
    """So many VMs, each with a process of its own. A context manager: the processes end with it."""

    def __init__(self, count: int, directory: Path) -> None:
        self._directory = directory
        self._count = count
        self._uuids: list[str] = []
        self._stack = ExitStack()

    def __enter__(self) -> FakeFleet:
        processes = self._stack.enter_context(vm_processes(self._count))
        self._uuids = list(processes)
        for number, process in enumerate(processes.values()):
            (self._directory / f"vm-{number}.pid").write_text(str(process.pid))
        self._cycle = self._make(KernelRoot())
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._store.close()

    def cycle(self) -> None:
        """One cycle of the agent; every VM's process must have been read."""
        report = self._cycle.run()
        unread = [one.observation.name for one in report.domains if one.observation.process is None]
        if unread:
            raise RuntimeError(f"not measured: the processes of {', '.join(unread)} were not read")

    def _make(self, root: KernelRoot) -> Cycle:
        self._store = open_host_store(f"sqlite:///{self._directory / 'bench.db'}", host="bench")
        bus = InProcessBus()
        bus.subscribe("store", self._store.reports.save)
        guests = Guests(lambda _: nullcontext(_silent), GuestTiming())
        deep = DeepReads(root, 4096, 0.5, 60.0)
        lever = DedupLever(
            root, self._store.marks, _no_monitor, DedupSettings(), "boot", lambda _: 0, lambda: 0, time.time
        )
        observer = Observer(
            root,
            self._stats,
            _Definitions(self._uuids),
            Processes(root, self._directory, 4096, wait=60.0),  # on a busy machine, too, none is left unread
            deep,
            guests.news,
            memory_cgroup=None,
            pressure_cgroup=None,
            guest_max_age=60.0,
            list_max_age=30.0,
            list_timeout=2.0,
            overhead=PlannerSettings().overhead,
        )
        settings = PlannerSettings()
        marks = self._store.marks
        parts = Parts(
            observer=observer,
            policies=Policies(self._store.policies, {}),
            samples=PageSamples(root, 4096, 0.0, 3600.0, 60.0, KsmPace()),
            runners=(
                HostRunner(lever),
                VmRunner(BalloonLever(marks, _no_balloon, time.time, partial(instance_runs, root))),
                QosRunner(
                    QosLever(root, marks, "boot", time.time), overhead=settings.overhead, reserve=settings.reserve_of
                ),
                VmRunner(
                    SwapOutLever(
                        root,
                        lambda instance: GuestAdvice(root, instance),
                        Clearings(),
                        SwapOutSettings(),
                        time.monotonic,
                    )
                ),
                ReportingRunner(guests, GuestReporting(marks, lambda _: _NextBoot(), 9)),
                CacheRunner(
                    Reclaims(guests, self._store.reclaims, lambda _: None), psi_limit=10.0, hold_off=30.0, always=False
                ),
                LadderShown(),
            ),
            deep=deep,
            nova=NovaFiles(root, "/var/lib/nova/compute_id", []),
            publisher=bus,
            audit=RetryingAudit(self._store.events),
            states=self._store.states,
            marks=TravellingMarks(marks, lambda *_: None, TRAVELLING),
        )
        return Cycle(Identity("bench", "epoch", "boot"), parts, settings, GIB, start(settings))

    def _stats(self) -> list[DomainStats]:
        now = int(time.time())
        balloon = {
            "balloon.current": 4 * GIB // KIB,
            "balloon.maximum": 4 * GIB // KIB,
            "balloon.available": 4 * GIB // KIB,
            "balloon.unused": 3 * GIB // KIB,
            "balloon.usable": 3 * GIB // KIB,
            "balloon.disk_caches": 1 * GIB // KIB,
            "balloon.last-update": now,
        }
        return [
            DomainStats(one, f"vm-{number}", DomainState.RUNNING, balloon) for number, one in enumerate(self._uuids)
        ]


def _no_balloon(uuid: str) -> BalloonTarget:
    raise AssertionError(f"nobody asked for the balloon of {uuid}")


def _no_monitor(_uuid: str) -> NoReturn:
    raise AssertionError("nobody asked for dedup")
