"""What the demo does, step by step, and what it measured. It prints nothing: whoever shows it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from lab.agent import AgentProcess
from lab.errors import LabError
from lab.guest import Guest
from lab.host import Host
from lab.waiting import wait_for
from memhint.objects.report import Report
from memhint.objects.units import GIB, MIB, mib

DRAIN_DEADLINE = 30.0  # seconds in which the freed memory must have come back
SETTLED = 10.0  # seconds that the headroom may take to hold one more VM, once nothing else moves
FIRST = 120.0  # and for the first one: the burst of the last batch is remembered, and promises rise at a rate


@dataclass(frozen=True, slots=True)
class Settings:
    """Sizes in bytes."""

    guests: int = 6
    memory: int = 1 * GIB
    budget: int = 5 * GIB
    swap: int = 12 * GIB
    work: int = 640 * MIB  # what each guest allocates, fills and frees
    at_once: int = 3  # guests that work at the same time
    most: int = 12  # VMs the demo stops at, for the sake of its time
    seconds: float = 45.0  # for starting more of them


@dataclass(frozen=True, slots=True)
class Sample:
    """One report of the agent, as far as it is plotted. Seconds since the demo's begin, and bytes."""

    at: float
    phase: str
    resident: dict[str, int]
    assigned: int
    headroom: int
    available: int
    nominal: int  # VMs that fit by nominal accounting, those that run included
    measured: int  # VMs that run, and those that still fit by measured accounting


@dataclass(slots=True)
class GuestResult:
    """One guest's way. Bytes and seconds."""

    name: str
    assigned: int
    resident_idle: int = 0
    resident_before_free: int = 0
    resident_after_free: int = 0
    drained_in: float = 0.0
    reported: int | None = None  # by the guest since its boot, in its own words; None where it does not count
    discarded: int | None = None  # by QEMU since its start; None where it does not count
    claim: str | None = None  # how the two were found to agree


@dataclass(frozen=True, slots=True)
class Round:
    """One promise, and what came of it."""

    headroom: int
    promised: int
    started: tuple[str, ...]
    seconds: float


@dataclass(slots=True)
class Result:
    """What the demo found."""

    slot: int = 0
    nominal_vms: int = 0
    measured_vms_at_first_promise: int = 0
    running_vms: int = 0
    answering_vms: int = 0
    guests: list[GuestResult] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    swap_used: int = 0
    highest_swap_used: int = 0
    oom_kills: int = 0
    highest_use: int = 0
    seconds: float = 0.0


class Audience(Protocol):
    """Whoever watches."""

    def phase(self, text: str) -> None:
        """A new part begins."""

    def sample(self, report: Report, sample: Sample) -> None:
        """The agent has reported."""


class Scenario:
    """The demo on one host that is up with its guests."""

    def __init__(self, host: Host, agent: AgentProcess, settings: Settings, audience: Audience) -> None:
        self.host, self.agent, self.settings, self.audience = host, agent, settings, audience
        self.result = Result()
        self._began = time.monotonic()
        self._phase = ""
        self._newest: Report | None = None

    def run(self) -> Result:
        """All of it.

        :raises LabError: when something that the demo is to show did not happen
        """
        self._enter("the guests idle; the agent sees them for the first time")
        report = self._follow(lambda seen: len(seen.domains) == self.settings.guests and _all_read(seen), 60.0)
        self.result.slot = report.slot
        self.result.nominal_vms = self._nominal(report)
        self._work()
        self._admit()
        self._verify()
        self.result.seconds = time.monotonic() - self._began
        return self.result

    # -- the guests work and free ------------------------------------------------------------------------------------

    def _work(self) -> None:
        guests = self.host.guests
        for first in range(0, len(guests), self.settings.at_once):
            batch = guests[first : first + self.settings.at_once]
            names = f"{batch[0].name} … {batch[-1].name}"
            results = [GuestResult(one.name, one.memory, resident_idle=one.resident()) for one in batch]
            self.result.guests += results
            self._enter(f"{names} fill {self.settings.work // MIB} MiB each")
            self._together(batch, lambda one: one.alloc("work", self.settings.work, content="random"))
            for one, found in zip(batch, results, strict=True):
                found.resident_before_free = one.resident()
            self._enter(f"{names} free it; page reporting tells the host")
            self._drain(batch, results)

    def _drain(self, batch: Sequence[Guest], results: Sequence[GuestResult]) -> None:
        began = time.monotonic()
        self._together(batch, lambda one: one.free("work"))
        waiting = dict(zip(batch, results, strict=True))

        def drained(_report: Report) -> bool:
            for one, found in list(waiting.items()):
                found.resident_after_free = one.resident()
                if found.resident_before_free - found.resident_after_free >= 0.9 * self.settings.work:
                    found.drained_in = time.monotonic() - began
                    del waiting[one]
            return not waiting

        self._follow(drained, DRAIN_DEADLINE)

    # -- more VMs are promised, started and seen to run --------------------------------------------------------------

    def _admit(self) -> None:
        until = time.monotonic() + self.settings.seconds
        while len(self.host.guests) < self.settings.most and time.monotonic() < until:
            self._enter(f"{len(self.host.guests)} VMs run; waiting until the measured headroom holds one more")
            try:
                report = self._follow(self._room_for_one_more, SETTLED if self.result.rounds else FIRST)
            except LabError:
                if not self.result.rounds:
                    raise
                return  # full: the last rounds stand
            self._start(report)

    def _room_for_one_more(self, report: Report) -> bool:
        return len(report.domains) == len(self.host.guests) and self._places(report) > 0 and _steady(report)

    def _start(self, report: Report) -> None:
        running = len(self.host.guests)
        places = min(self._places(report), self.settings.most - running)
        if not self.result.rounds:
            self.result.measured_vms_at_first_promise = running + self._places(report)
        names = [f"guest-{running + number + 1}" for number in range(places)]
        self._enter(f"{mib(report.plan.capacity.headroom)} MiB are promised: starting {', '.join(names)}")
        began = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            wishes = [{"name": name, "memory": self.settings.memory} for name in names]
            started = pool.submit(self.host.add_guests, wishes)
            self._follow(lambda _: started.done(), 300.0)
            started.result()
        spent = time.monotonic() - began
        self.result.rounds.append(Round(report.plan.capacity.headroom, places, tuple(names), spent))

    def _verify(self) -> None:
        self._enter("every VM is asked whether it runs")
        report = self._follow(lambda seen: len(seen.domains) == len(self.host.guests) and _all_read(seen), 60.0)
        self._count()
        self.result.running_vms = sum(one.observation.state == "running" for one in report.domains)
        self.result.answering_vms = sum(1 for one in self.host.guests if one.work("ping") is not None)
        self.result.swap_used = self.host.swap_used()
        self.result.highest_swap_used = max(self.result.highest_swap_used, self.result.swap_used)
        self.result.oom_kills = self.host.oom_kills()

    def _count(self) -> None:
        """What guests and QEMU counted, of the guests that worked; both once a VM is at rest."""
        if all(one.emulator == "stock" for one in self.host.guests):
            return
        results = {one.name: one for one in self.result.guests}

        def counted(report: Report) -> bool:
            for one in report.domains:
                seen, found = one.observation, results.get(one.observation.name)
                if found is not None and seen.balloon_reporting is not None:
                    found.discarded = seen.balloon_reporting.discarded.bytes
                    found.reported = seen.guest.lifetime_reported if seen.guest else None
                    found.claim = str(seen.reporting_check.agreement) if seen.reporting_check else None
            return all(one.discarded is not None and one.reported in (None, one.discarded) for one in results.values())

        with suppress(LabError):  # idle guests still report a little now and then: what was seen last stands
            self._follow(counted, SETTLED)

    # -- watching ----------------------------------------------------------------------------------------------------

    def _enter(self, text: str) -> None:
        self._phase = text
        self.audience.phase(text)

    def _together(self, batch: Sequence[Guest], action: Callable[[Guest], object]) -> None:
        with ThreadPoolExecutor(len(batch)) as pool:
            futures = [pool.submit(action, one) for one in batch]
            self._follow(lambda _: all(one.done() for one in futures), 200.0)  # longer than each may take
            for one in futures:
                one.result()

    def _follow(self, until: Callable[[Report], bool], deadline: float) -> Report:
        """Show every report until one satisfies ``until``, which is asked more often than there are reports."""

        def look() -> Report | None:
            self.result.highest_use = max(self.result.highest_use, self.host.usage())
            report = self.agent.newest()
            if report is None:
                return None
            if self._newest is None or (report.epoch, report.sequence) != (self._newest.epoch, self._newest.sequence):
                self._newest = report
                self.result.highest_swap_used = max(self.result.highest_swap_used, report.observation.memory.swap_used)
                sample = self._sample(report)
                self.result.samples.append(sample)
                self.audience.sample(report, sample)
            return report if until(report) else None

        found = wait_for(look, deadline, self._phase, interval=0.2)
        assert found is not None
        return found

    def _sample(self, report: Report) -> Sample:
        capacity = report.plan.capacity
        return Sample(
            at=time.monotonic() - self._began,
            phase=self._phase,
            resident={one.observation.name: one.observation.resident or 0 for one in report.domains},
            assigned=sum(one.observation.facts.memory for one in report.domains),
            headroom=capacity.headroom,
            available=report.observation.memory.available,
            nominal=self._nominal(report),
            measured=len(report.domains) + capacity.slots(report.slot),
        )

    def _nominal(self, report: Report) -> int:
        """VMs of this size that accounting by assigned memory lets onto this host, however many run."""
        capacity = report.plan.capacity
        return max(0, capacity.pool - capacity.reserve) // report.slot

    def _places(self, report: Report) -> int:
        return report.plan.capacity.slots(report.slot)


def _all_read(report: Report) -> bool:
    return all(one.observation.process is not None for one in report.domains)


def _steady(report: Report) -> bool:
    """No VM is still counted in full because it is new, and the capacity's own rate limit is not what bounds it."""
    new = any(one.reason in ("new", "unobserved") for one in report.plan.demands)
    return not new and report.plan.capacity.bound not in ("rate", "stale", "pressure")
