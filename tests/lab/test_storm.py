"""A host packed as far as memhint promises, and then every guest wants all of its memory at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest

from lab import Lab, wait_for
from lab.agent import AgentProcess
from lab.guest import Guest
from lab.host import Host
from lab.packing import pack, storm
from lab.sizes import GIB, MIB
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName
from memhint.objects.ownership import HOST
from memhint.objects.report import Report
from memhint.planner.pressure import PressureSample, alarms
from memhint.planner.settings import PressureThresholds
from memhint.store.errors import StoreError
from tests.told import pulls

GUEST = 384 * MIB
SETTINGS = {
    "ladder": {"climb": 2, "cache_least_mib": 16, "rungs": "reporting,cache,order"},
    "planner": {"slot_mib": GUEST // MIB},
}
BUDGET = 2 * GIB


def vm(number: int) -> dict[str, object]:
    return {"name": f"vm{number}", "memory": GUEST, "extra_specs": {"memhint:guest_actions": "allow"}}


@pytest.fixture(scope="module")
def packed() -> Iterator[tuple[AgentProcess, Host]]:
    """A host with disk swap, filled with guests until its agent promises none more."""
    with Lab(guests=0, budget=BUDGET, swap=4 * GIB, kernel="6.12-memhint", agent="memhint") as lab:
        host = lab.hosts[0]
        host.add_guests([vm(number) for number in range(3)])
        with AgentProcess(host, SETTINGS) as agent:
            pack(agent, host, vm)
            yield agent, host


class Watch:
    """Every report there is while a block runs."""

    def __init__(self, agent: AgentProcess) -> None:
        self._agent = agent
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.reports: list[Report] = []

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def reached(self, rung: Rung) -> bool:
        """Whether the ladder stood on that rung in a report so far."""
        return any(rung in [step.rung for step in one.plan.rungs] for one in self.reports)

    def asked(self) -> bool:
        """Whether a report so far says that a guest is to report sooner."""
        return any(one.plan.relief.tuning for one in self.reports)

    def _run(self) -> None:
        while not self._over.wait(0.2):
            try:
                found = self._agent.newest()
            except StoreError:
                continue  # somebody had the store for long: it is looked at again, and this thread must not end
            if found is not None and (not self.reports or found.sequence != self.reports[-1].sequence):
                self.reports.append(found)


def delay(guest: Guest) -> str:
    """What a guest's kernel waits for after memory was freed before it reports it, ms."""
    return str(guest.work("read /sys/module/page_reporting/parameters/page_reporting_delay_ms")["text"]).strip()


def alarmed(report: Report) -> list[str]:
    """What the report's own observation would have entered the lowest rung for."""
    seen = report.observation
    available = 100.0 * seen.memory.available / seen.pool
    return alarms(
        PressureSample(seen.pressure.some_avg10 if seen.pressure else None, None, available), PressureThresholds()
    )


def admits(report: Report) -> bool:
    return report.plan.pressure.admitting and not report.plan.rungs


def climbed(agent: AgentProcess) -> list[int]:
    """How many rungs the ladder stood on, by its events, in their order."""
    events = [one for one in reversed(pulls(agent.store(), HOST, 2000)) if one.lever is LeverName.LADDER]
    return [len(one.detail.split(", ")) if one.detail else 0 for one in events]


def test_a_storm_kills_nobody_and_the_ladder_goes_up_and_down(packed: tuple[AgentProcess, Host]) -> None:
    agent, host = packed
    before = agent.newest()
    assert before is not None
    nominal = (before.plan.capacity.pool - before.plan.capacity.reserve) // before.slot
    assert len(host.guests) >= 2 * nominal
    assert host.swap_used() == 0
    with Watch(agent) as watch:
        outcome = storm(host.guests, 180.0)
        # They hold what they took, so the ladder climbs on although they answer; idle ones it asks for more.
        wait_for(lambda: watch.reached(Rung.CACHE), 60.0, "the ladder to climb to page cache")
        wait_for(lambda: "200" in [delay(one) for one in host.guests], 60.0, "a guest that is idle to report sooner")
        # A guest is asked in the middle of a cycle, and the report is of the end of it.
        wait_for(watch.asked, 60.0, "the report of the cycle that asked for it")
    print(f"\n{len(host.guests)} VMs, nominal {nominal}; {sum(one.touched for one in outcome) // MIB} MiB wanted")
    print(f"all answered after {max(one.answered or 999 for one in outcome):.0f} s; swap {host.swap_used() // MIB} MiB")
    assert host.oom_kills() == 0
    assert all(one.answered is not None and one.answered <= 120.0 for one in outcome), outcome

    # Admission closes in the very cycle that sees the storm.
    pressed = [one for one in watch.reports if alarmed(one)]
    assert pressed
    for report in pressed:
        assert not report.plan.pressure.admitting
        assert report.plan.capacity.headroom == 0
    reached = max((one.plan.rungs for one in watch.reports), key=len)
    assert [one.rung for one in reached[:3]] == [Rung.ADMISSION, Rung.REPORTING, Rung.CACHE]

    for guest, one in zip(host.guests, outcome, strict=True):
        if one.filled is not None:
            guest.free("storm")
    wait_for(lambda: (found := agent.newest()) is not None and not found.plan.rungs, 120.0, "the ladder to be left")
    wait_for(lambda: all(delay(one) == "2000" for one in host.guests), 90.0, "every guest's own delay to be back")
    # What comes back from swap meanwhile may close admission once more, for its cooldown.
    wait_for(lambda: admits(agent.report()), 60.0, "the host to be at ease")
    # The events of a cycle are written after its report.
    wait_for(lambda: climbed(agent)[-1] == 0, 60.0, "the event of the lowest rung left")
    steps = climbed(agent)
    assert max(steps) >= len(reached)  # it may have climbed on until the memory was freed
    # Up as far as a fast fall asks for at once, down one rung at a time, and at the end all the way.
    assert all(now - after == 1 for now, after in pairwise(steps) if after < now), steps
