"""What one planning costs: the same kind of host with 50 and with 500 VMs, planned in turn within one run.

    python -m bench.planner_cost [--rounds N] [--json]

The VMs differ in size, use, class, group and guest; a few are stopped or excluded, all have a full past. Only the
planner is timed, in CPU time of this process: no observation, no lever, no store. The ratio is what a VM costs on the
large host against the small one: 1.0 means that the cost grows with the number of VMs and no faster.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from dataclasses import dataclass, replace

from memhint.objects.domain import DomainFacts, DomainObservation, DomainState, ProcessMemory
from memhint.objects.guest import GuestKernel
from memhint.objects.host import HostMemory, HostObservation, NumaNode, Pressure, Scope, SwapActivity
from memhint.objects.plan import PredictorName
from memhint.objects.policy import Origin, Policy, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.past import SLOTS
from memhint.planner.plan import plan
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start

SMALL, LARGE = 50, 500
PERIOD = 10.0  # seconds between two cycles


@dataclass
class Bench:
    """One host that is planned again and again."""

    settings: PlannerSettings
    domains: list[DomainObservation]
    policies: dict[str, Policy]
    state: PlannerState
    now: float

    def host(self) -> HostObservation:
        """What fits the VMs, and half as much again."""
        taken = sum(one.process.rss for one in self.domains if one.process)
        total = taken * 3 // 2 + 8 * GIB
        return HostObservation(
            at=self.now,
            memory=HostMemory(Scope.MACHINE, total, total - taken - 4 * GIB, total, 0),
            page_size=4096,
            pressure=Pressure(Scope.MACHINE, 0.1, 0.1, 0.0, 0),
            swap=SwapActivity(0, 0),
            numa=(NumaNode(0, total // 2, total // 8), NumaNode(1, total // 2, total // 8)),
        )

    def cycle(self, chance: random.Random, step: float = PERIOD) -> float:
        """Move every VM a little and plan, ``step`` seconds later; the CPU seconds that planning took."""
        self.now += step
        self.domains = [_moved(one, chance) for one in self.domains]
        host = self.host()
        began = time.process_time()
        planned = plan(host, self.domains, self.policies, self.state, self.now, self.settings)
        took = time.process_time() - began
        self.state = planned.state
        return took


def _moved(domain: DomainObservation, chance: random.Random) -> DomainObservation:
    if domain.process is None:
        return domain
    rss = min(domain.facts.memory, max(64 * MIB, int(domain.process.rss * chance.uniform(0.97, 1.03))))
    return replace(domain, process=replace(domain.process, rss=rss))


def fleet(vms: int, predictor: PredictorName, chance: random.Random) -> Bench:
    """A host whose VMs have been there for longer than any window."""
    domains, policies = [], {}
    for number in range(vms):
        size = chance.choice((1, 2, 4, 8, 16)) * GIB
        facts = DomainFacts(
            memory=size, balloon=True, reporting_offered=True, guest_agent=True, vfio=number % 50 == 7, project="p"
        )
        on = number % 40 != 3
        domain = DomainObservation(
            uuid=f"00000000-0000-4000-8000-{number:012d}",
            name=f"vm-{number}",
            state=DomainState.RUNNING if on else DomainState.SHUTOFF,
            facts=facts,
            process=ProcessMemory(number + 1, 1000, int(size * chance.uniform(0.2, 0.9)), 0, 0, 0) if on else None,
            guest_kernel=GuestKernel(0.0, "6.12.1", "boot", 9, os="debian") if number % 3 else None,
        )
        said = {
            "class": ("burstable", "best-effort", "guaranteed")[number % 10 % 3],
            "group": f"group-{number % 20}",
            "min_mb": str(256 * (number % 4)),
            "reporting": ("auto", "on")[number % 2],
        }
        domains.append(domain)
        policies[domain.uuid] = effective({Origin.FLAVOR: said})
    settings = PlannerSettings(predictor=predictor)
    bench = Bench(settings, domains, policies, start(settings), 0.0)
    for _ in range(SLOTS + 2):
        bench.cycle(chance, settings.forecast_window / SLOTS)
    return bench


def measure(predictor: PredictorName, rounds: int, seed: int) -> dict[str, float | str]:
    """Medians of one predictor, the two sizes taken in turn."""
    chance = random.Random(seed)
    small, large = fleet(SMALL, predictor, chance), fleet(LARGE, predictor, chance)
    took: dict[int, list[float]] = {SMALL: [], LARGE: []}
    for _ in range(rounds):
        took[SMALL].append(small.cycle(chance))
        took[LARGE].append(large.cycle(chance))
    medians = {size: statistics.median(found) for size, found in took.items()}
    return {
        "predictor": str(predictor),
        "small_ms": medians[SMALL] * 1e3,
        "large_ms": medians[LARGE] * 1e3,
        "large_p95_ms": statistics.quantiles(took[LARGE], n=20)[-1] * 1e3,
        "per_vm_ratio": (medians[LARGE] / LARGE) / (medians[SMALL] / SMALL),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = [measure(predictor, options.rounds, options.seed) for predictor in PredictorName]
    if options.json:
        print(json.dumps(found))
        return
    print(f"{'predictor':<14} {SMALL:>4} VMs {LARGE:>5} VMs {'p95':>9} {'per VM, large against small':>28}")
    for one in found:
        print(
            f"{one['predictor']:<14} {one['small_ms']:>5.2f} ms {one['large_ms']:>6.2f} ms "
            f"{one['large_p95_ms']:>6.2f} ms {one['per_vm_ratio']:>28.2f}"
        )


if __name__ == "__main__":
    main()
