"""A host for cycles: VMs as files, guests as fake agents, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

from lab.memory_ledger import MemoryLedger
from memhint.agent.applied import Applied
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
from memhint.agent.reclaim_store import NoRequests
from memhint.agent.reclaims import Reclaims
from memhint.agent.runners.cache import CacheRunner
from memhint.agent.runners.host import HostRunner
from memhint.agent.runners.ladder import LadderShown
from memhint.agent.runners.qos import QosRunner
from memhint.agent.runners.reporting import ReportingRunner
from memhint.agent.runners.runner import LeverRunner
from memhint.agent.runners.vm import VmRunner
from memhint.agent.travelling_marks import TravellingMarks
from memhint.kernel.clearings import Clearings
from memhint.kernel.guest_ram import GuestRam, Span
from memhint.levers.balloon import BalloonLever
from memhint.levers.dedup import DedupLever, DedupSettings
from memhint.levers.qos import QosLever
from memhint.levers.swap_out import SwapOutLever, SwapOutSettings
from memhint.objects.domain import DomainState
from memhint.objects.lever import LeverState
from memhint.objects.ownership import Mark
from memhint.objects.units import GIB, KIB, MIB
from memhint.pages.samples import PageSamples
from memhint.planner.dedup_estimate import KsmPace
from memhint.planner.growth import GrowthTable
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from memhint.store.errors import StoreError
from memhint.store.rows.policies import StoredPolicies
from memhint.virt.domain_xml import Definition
from memhint.virt.errors import LibvirtCallFailed, VirtError
from memhint.virt.stats import DomainStats
from tests.unit import builders
from tests.unit.guest.fake_agent import FakeAgent
from tests.unit.kernel.fake_root import FakeRoot
from tests.unit.levers.fakes import FakeNextBoot

WAIT_S = 60.0  # for threads; never reached unless the test fails
SETTINGS = PlannerSettings(reserve=1 * GIB, reserve_percent=0.0, raise_percent_per_minute=6000.0, new_vm_decay=1.0)


class FakeDefinitions:
    def __init__(self) -> None:
        self.known: dict[str, Definition] = {}
        self.missing: set[str] = set()
        self.kept: set[str] = set()  # read before, and not to be read again now
        self.error: VirtError = LibvirtCallFailed("the XML cannot be read now")
        self.invalid: list[str] = []

    def invalidate(self, uuid):
        self.invalid.append(uuid)

    def read(self, uuids, now):
        wanted = set(uuids)
        gaps = {uuid: self.error.gap("definition") for uuid in wanted & (self.missing | self.kept)}
        return {uuid: self.known[uuid] for uuid in wanted - self.missing}, gaps


class Recorder:
    def __init__(self) -> None:
        self.reports, self.events, self.failing, self.wishes = [], [], False, {}
        self.saved: tuple = ()
        self.unreadable: dict[str, str] = {}

    def publish(self, report) -> None:
        self.reports.append(report)

    def record(self, host, at, states) -> None:
        if self.failing:
            raise StoreError("the disk is full")
        self.events += list(states)

    queue = record

    def save(self, host, boot, state, ended=None) -> None:
        if self.failing:
            raise StoreError("the disk is full")
        self.saved = (state, ended)

    def of(self, uuids):
        if self.failing:
            raise StoreError("the disk is full")
        return StoredPolicies(self.wishes, {uuid: why for uuid, why in self.unreadable.items() if uuid in uuids})

    def replace(self, uuid, origin, values) -> None:
        raise AssertionError("nothing to remember here")


class FakeGuest:
    """A guest under KVM: a little is taken from it, and it is not waited for."""

    def look(self) -> GuestRam:
        return GuestRam((Span(0, GIB),), GIB, 0, kvm=True)


class FakeHost:
    """Three VMs, their QEMU processes as files, their guests as fake agents, and a clock that is set by hand."""

    def __init__(
        self,
        path: Path,
        names: Sequence[str] = ("web", "db", "old"),
        more: Callable[[Callable[[LeverState], None]], Sequence[LeverRunner]] = lambda note: (),
        guests: bool = True,
    ) -> None:
        """:param more: further levers, given what notes their outcomes
        :param guests: as `[guest] enabled`
        """
        self.root = FakeRoot(path / "root")
        self.root.write(
            "proc/meminfo",
            f"MemTotal: {64 * GIB // KIB} kB\nMemFree: {50 * GIB // KIB} kB\nMemAvailable: {56 * GIB // KIB} kB\n",
        )
        self.root.write("proc/swaps", "Filename Type Size Used Priority\n/swap file 67108864 0 -2\n")
        self.run = path / "run"
        self.run.mkdir()
        self.now = 1000.0
        self.definitions = FakeDefinitions()
        self.recorder = Recorder()
        self.agents: dict[str, FakeAgent] = {}
        self.listed: list[DomainStats] = []
        self.stats_error: Exception | None = None
        for number, name in enumerate(names):
            self.add(name, 4000 + number)
        self.carried: dict[str, Sequence[Mark]] = {}
        ledger = self.ledger = MemoryLedger()
        self.applied = Applied(lambda: self.now)
        self.growth: GrowthTable | None = None
        # Conversations run at once, on the caller's thread: nothing here waits for a thread.
        self.guests = Guests(
            lambda uuid: nullcontext(self.agents[uuid]),
            GuestTiming(interval=10.0),
            wall=lambda: self.now,
            clock=lambda: self.now,
            enabled=guests,
        )
        reporting = GuestReporting(
            ledger, lambda uuid: FakeNextBoot(), 9, wall=lambda: self.now, note=self.applied.note
        )
        self.guests._poller._start = lambda work: work()
        # Begun in a cycle and worked off when a test says so.
        self.reclaiming: list = []
        self.reclaims = Reclaims(
            self.guests, NoRequests(), lambda _: None, wall=lambda: self.now, start=self.reclaiming.append
        )
        deep = DeepReads(self.root.kernel, 4096, 1.0, 60.0)
        lever = DedupLever(
            self.root.kernel,
            ledger,
            lambda uuid: None,
            DedupSettings(),
            "boot",
            lambda _: 0,
            lambda: 0,
            lambda: self.now,
        )
        self.balloons: list[tuple[str, int]] = []
        self.ballooning = VmRunner(BalloonLever(ledger, self.balloon, lambda: self.now, lambda _: True))
        observer = Observer(
            self.root.kernel,
            self.stats,
            self.definitions,
            Processes(self.root.kernel, self.run, 4096, WAIT_S),
            deep,
            self.guests.news,
            memory_cgroup=None,
            pressure_cgroup=None,
            guest_max_age=60.0,
            list_max_age=30.0,
            list_timeout=2.0,
            overhead=128 * MIB,
        )
        self.swap_out = VmRunner(
            SwapOutLever(
                self.root.kernel,
                lambda instance: nullcontext(FakeGuest()),
                Clearings(),
                SwapOutSettings(),
                lambda: self.now,
            )
        )
        self.caches = CacheRunner(self.reclaims, psi_limit=10.0, hold_off=30.0, always=False)
        self.dedup = HostRunner(lever)
        parts = Parts(
            observer=observer,
            policies=Policies(self.recorder, {}),
            samples=PageSamples(self.root.kernel, 4096, 0.0, 3600.0, 60.0, KsmPace()),
            runners=(
                self.dedup,
                self.ballooning,
                QosRunner(
                    QosLever(self.root.kernel, ledger, "boot", lambda: self.now),
                    overhead=SETTINGS.overhead,
                    reserve=SETTINGS.reserve_of,
                ),
                self.swap_out,
                ReportingRunner(self.guests, reporting),
                self.caches,
                LadderShown(),
                *more(self.applied.note),
            ),
            deep=deep,
            nova=NovaFiles(self.root.kernel, "/var/lib/nova/compute_id", ["/etc/nova/nova.conf"]),
            publisher=self.recorder,
            audit=self.recorder,
            states=self.recorder,
            marks=TravellingMarks(ledger, self.carried.__setitem__, TRAVELLING),
            applied=self.applied,
            growth=lambda: self.growth,
        )
        self.cycle = Cycle(
            Identity("host-1", "epoch", "boot"),
            parts,
            SETTINGS,
            GIB,
            start(SETTINGS),
            wall=lambda: self.now,
            clock=lambda: self.now,
        )

    def add(self, name: str, pid: int) -> None:
        uuid = f"uuid-{name}"
        self.root.process(pid, cmdline=f"qemu\0-uuid\0{uuid}\0")
        (self.run / f"{name}.pid").write_text(str(pid))
        self.definitions.known[uuid] = Definition(builders.facts(memory=4 * GIB))
        self.agents[uuid] = FakeAgent(
            files={
                "/proc/meminfo": "MemTotal: 4000000 kB\nMemFree: 3000000 kB\nMemAvailable: 3500000 kB\nCached: 9 kB\n",
                "/proc/buddyinfo": "Node 0, zone Normal 1 2 3 4 5 6 7 8 9 10 11\n",
                "/proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
            }
        )
        balloon = {"balloon.current": 4 * GIB // KIB, "balloon.maximum": 4 * GIB // KIB}
        self.listed.append(DomainStats(uuid, name, DomainState.RUNNING, balloon))

    def balloon(self, uuid: str):
        return SimpleNamespace(set=lambda size: self.balloons.append((uuid, size)))

    def stats(self):
        if self.stats_error is not None:
            raise self.stats_error
        return self.listed

    def run_cycles(self, count: int = 1):
        for _ in range(count):
            report = self.cycle.run()
            self.settle()
            self.now += 10.0
        return report

    def settle(self) -> None:
        """End what the cycle began on threads, as it does between two cycles: the next one shows what came of it."""
        for runner in (self.dedup, self.ballooning, self.swap_out):
            assert runner.settle(WAIT_S)
