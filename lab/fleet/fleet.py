"""The hosts of the synthetic fleet, and the report of each at any moment."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from lab.fleet.vm import OVERHEAD, Vm, make_vm
from memhint.objects.epoch import new_epoch
from memhint.objects.gap import Gap, GapReason
from memhint.objects.host import HostMemory, HostObservation, Ksm, NumaNode, Pressure, Scope, SwapActivity, Thp
from memhint.objects.ladder import EnteredRung, Rung
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST
from memhint.objects.plan import Bound, Capacity, Plan, PressureVerdict
from memhint.objects.report import Cost, DomainReport, Report
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict

SLOT = 4 * GIB + OVERHEAD
BEGIN = 1_700_000_000.0  # unix seconds at which every agent of the fleet began
_PRESSED = 12  # one host in so many is under pressure
_STALE = 25  # one in so many said nothing lately
_RUNGS = (Rung.ADMISSION, Rung.REPORTING, Rung.CACHE, Rung.ORDER, Rung.DEDUP)
_WHY = "pressure 24.0 % over 20 % for 10 s"


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a fleet is, and which of all fleets of that size. ``period`` is seconds between two reports."""

    hosts: int
    vms: int
    period: float = 10.0
    seed: int = 1


class Fleet:
    """So many hosts with so many VMs each. Their reports depend on the shape and the moment alone.

    The last VM of host ``hoarder`` holds by far the most unreported memory.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.hoarder = shape.hosts * 2 // 3
        self.epoch = new_epoch(BEGIN, None, f"{shape.seed:08x}")
        self._hosts = [self._make(number) for number in range(shape.hosts)]

    @property
    def most_unreported(self) -> str:
        """The UUID of the VM that holds the most unreported memory."""
        return self._hosts[self.hoarder].vms[-1].uuid

    def name(self, host: int) -> str:
        """A host's name, by its number from 0."""
        return f"compute-{host:04d}"

    def pressed(self, host: int) -> bool:
        """Whether this host is under pressure."""
        return host % _PRESSED == _PRESSED - 1 and host != self.hoarder

    def stale(self, host: int) -> bool:
        """Whether this host said nothing for the last ten minutes."""
        return host % _STALE == _STALE - 1 and host != self.hoarder

    def sequence(self, at: float) -> int:
        """The number of the newest cycle at a moment (unix seconds)."""
        return int((at - BEGIN) // self.shape.period)

    def clock(self, at: float) -> float:
        """Seconds for which the agents had lived when they made the report of that moment."""
        return self.sequence(at) * self.shape.period

    def reports(self, at: float) -> Iterator[Report]:
        """The newest report of every host at a moment (unix seconds)."""
        return (self.report(number, at) for number in range(self.shape.hosts))

    def report(self, host: int, at: float, *, even_stale: bool = False) -> Report:
        """The newest report of a host at a moment (unix seconds). One that is stale has an old one, unless told not."""
        if self.stale(host) and not even_stale:
            at -= 600.0
        return self._hosts[host].report(self, self.sequence(at), BEGIN + self.clock(at))

    def _make(self, number: int) -> _Host:
        vms = self.shape.vms
        made = tuple(
            make_vm(self.shape.seed, number, one, hoards=number == self.hoarder and one == vms - 1)
            for one in range(vms)
        )
        return _Host(number, made, random.Random(f"{self.shape.seed}:{number}").uniform(0.55, 1.1))


@dataclass(frozen=True, slots=True)
class _Host:
    number: int
    vms: tuple[Vm, ...]
    overcommit: float  # assigned to what there is

    def report(self, fleet: Fleet, sequence: int, at: float) -> Report:
        told = [vm.report(at) for vm in self.vms]
        domains = tuple(one for one, _ in told)
        demands = tuple(one for _, one in told)
        assigned = sum(one.assigned for one in demands)
        footprint = sum(one.footprint for one in demands)
        want = sum(one.demand for one in demands)
        pressed = fleet.pressed(self.number)
        pool = max(64 * GIB, int(assigned / self.overcommit / GIB) * GIB, int(footprint / 0.85 / GIB) * GIB)
        if pressed:
            pool = int(footprint / 0.9)
        capacity = self._capacity(pool, assigned, footprint, want, pressed)
        memory = HostMemory(Scope.MACHINE, pool, capacity.available or 0, 16 * GIB, 2 * GIB if pressed else 0)
        some = 24.0 + sequence % 7 if pressed else 0.1 * (sequence % 9)
        saving = sum(one.observation.process.ksm_merging or 0 for one in domains if one.observation.process)
        seen = HostObservation(
            at,
            memory,
            4096,
            Pressure(Scope.MACHINE, some, some / 2, some / 4, sequence * 1000),
            SwapActivity(sequence * MIB if pressed else 0, sequence * MIB if pressed else 0),
            Ksm(1, saving // 40960, saving // 4096, 0, saving // 2, 7, 100, 20, True, "scan-time"),
            Thp("madvise", "madvise"),
            0,
            (),
            (NumaNode(0, pool, capacity.available or 0),),
        )
        rungs = tuple(
            EnteredRung(rung, 300.0 - 60 * place, _WHY)
            for place, rung in enumerate(_RUNGS[: 1 + self.number // _PRESSED % len(_RUNGS)] if pressed else ())
        )
        gaps = (Gap("libvirt", GapReason.PENDING, "connecting"),) if self.number % 40 == 7 else ()
        return Report(
            fleet.name(self.number),
            fleet.epoch,
            sequence,
            at,
            fleet.shape.period,
            SLOT,
            seen,
            domains,
            self._levers(pressed, rungs),
            Plan(capacity, demands, PressureVerdict(not pressed, _WHY if pressed else ""), (), rungs),
            Cost(0.02, 0.1, 1, 70 * MIB),
            gaps,
            agent="1.0.0",
        )

    def _capacity(self, pool: int, assigned: int, footprint: int, want: int, pressed: bool) -> Capacity:
        reserve, other = max(2 * GIB, pool // 16), 2 * GIB
        spare = 4 * GIB if not pressed else 2 * GIB
        available = max(0, pool - footprint - other)
        model = pool - reserve - other - want - spare
        now = available - reserve - (want - footprint) - spare
        back = pool - reserve - other + 16 * GIB - assigned
        headroom = min(model, now, back)
        bound = Bound.PRESSURE if pressed else (Bound.BACK if headroom == back else Bound.MODEL)
        return Capacity(
            pool,
            reserve,
            other,
            assigned,
            footprint,
            footprint,
            want,
            spare,
            16 * GIB,
            model,
            now,
            back,
            0 if pressed else max(0, headroom),
            bound,
            available=available,
            ksm_saving=0,
        )

    def _levers(self, pressed: bool, rungs: tuple[EnteredRung, ...]) -> tuple[LeverState, ...]:
        other = Verdict(Answer.CONFLICT, Reason.OTHER_MANAGER, "ksmtuned runs: stop it, or set [dedup] ksm = off")
        merging = other if self.number % 9 == 4 else Verdict(Answer.UNCHANGED)
        words = ", ".join(str(one.rung) for one in rungs)
        ladder = Verdict(Answer.APPLIED, Reason.PRESSURE, words) if pressed else Verdict(Answer.UNCHANGED)
        return (
            LeverState(LeverName.DEDUP, HOST, "auto", Observed.ON, merging),
            LeverState(LeverName.LADDER, HOST, "auto", Observed.ON if pressed else Observed.OFF, ladder),
        )


def refusals(report: Report) -> list[LeverState]:
    """The verdicts of a report that stand between a wish and its fulfilment."""
    every = [*report.levers, *(state for one in report.domains for state in one.levers)]
    return [state for state in every if not state.verdict.ok]


__all__ = ["BEGIN", "DomainReport", "Fleet", "Shape", "refusals"]
