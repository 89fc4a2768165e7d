"""What the demo does, step by step, and what it measured. It prints nothing: whoever shows it is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from lab.agent import AgentProcess
from lab.at_once import at_once, over
from lab.demo.still import Still
from lab.errors import LabError, Timeout
from lab.guest import Guest
from lab.host import BOOTING_AT_ONCE, Host
from lab.waiting import wait_for
from memhint.objects.report import Report
from memhint.objects.units import GIB, MIB, mib

AT_REST = 5.0  # seconds without a change: more than two of a guest's passes, which are two seconds apart
STILL = 4 * MIB  # what may change meanwhile; one block of free page reporting
BOOTED = 60.0  # seconds in which guests that have just booted come to rest; they are taken as they are then
DRAIN_DEADLINE = 120.0  # seconds in which the freed memory must have come back
BROKEN = (
    0.5  # of what a guest freed; where reporting works some nine tenths come back, where it does not next to nothing
)
WORK_DEADLINE = 400.0  # seconds for guests that work at the same time; longer than each of them may take
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


class NothingReturned(LabError):
    """A guest freed memory that its host did not get back."""


@dataclass(slots=True)
class GuestResult:
    """One guest's way. Bytes and seconds; what is resident is of the guest's memory alone, without QEMU's own."""

    name: str
    assigned: int
    resident_idle: int = 0
    resident_before_free: int = 0
    resident_after_free: int = 0
    freed: int = 0  # by which the guest's own count of free memory rose
    drained_in: float = 0.0  # until the last of it had come back
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
    stopped: str = ""  # why no more VMs were started, in a sentence
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
        self._rest()
        self._work()
        self._admit()
        self._verify()
        self.result.seconds = time.monotonic() - self._began
        return self.result

    # -- the guests work and free ------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """A guest that has just booted still frees what its boot took: no figure is taken before that is over."""
        self._enter("the guests come to rest after their boot")
        memory = {one: Still(AT_REST, STILL) for one in self.host.guests}
        with suppress(Timeout):
            self._follow(lambda _: all([seen.at_rest(one.memory_resident()) for one, seen in memory.items()]), BOOTED)

    def _work(self) -> None:
        guests = self.host.guests
        for first in range(0, len(guests), self.settings.at_once):
            batch = guests[first : first + self.settings.at_once]
            names = f"{batch[0].name} … {batch[-1].name}"
            results = [GuestResult(one.name, one.memory, resident_idle=one.memory_resident()) for one in batch]
            self.result.guests += results
            self._enter(f"{names} fill {self.settings.work // MIB} MiB each")
            self._together(batch, lambda one: one.alloc("work", self.settings.work, content="random"))
            for one, found in zip(batch, results, strict=True):
                found.resident_before_free = one.memory_resident()
            self._enter(f"{names} free it; page reporting tells the host")
            self._drain(batch, results)

    def _drain(self, batch: Sequence[Guest], results: Sequence[GuestResult]) -> None:
        free = {one.name: int(one.meminfo()["MemFree"]) for one in batch}
        self._together(batch, lambda one: one.free("work"))
        began = time.monotonic()
        for one, found in zip(batch, results, strict=True):
            found.freed = int(one.meminfo()["MemFree"]) - free[one.name]
        memory = {one.name: Still(AT_REST, STILL) for one in batch}

        def drained(_report: Report) -> bool:
            """It has come back as far as it will: nothing moves any more, and what came is no trifle."""
            over = True
            for one, found in zip(batch, results, strict=True):
                now, seen = one.memory_resident(), memory[one.name]
                still = seen.at_rest(now)
                found.resident_after_free, found.drained_in = now, max(0.0, seen.changed - began)
                over = over and still and _returned(found)
            return over

        try:
            self._follow(drained, DRAIN_DEADLINE)
        except Timeout:
            held = [one for one in results if not _returned(one)]
            if held:  # else somebody goes on using memory, and what came back is shown as it is
                raise NothingReturned(_not_returned(held)) from None

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
                self.result.stopped = "Room for one more was not promised again."
                return  # the last rounds stand
            self._start(report)
        if len(self.host.guests) >= self.settings.most:
            self.result.stopped = f"The demo stops at {self.settings.most} VMs, for the sake of its time."
        else:
            self.result.stopped = f"The demo starts no more VMs after {self.settings.seconds:.0f} s, room or not."

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
        with at_once(BOOTING_AT_ONCE) as pool:
            started = [pool.submit(self.host.add_guest, name, self.settings.memory) for name in names]
            self._follow(lambda _: over(started), 300.0)
            for one in started:
                one.result()
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
        with at_once(len(batch)) as pool:
            futures = [pool.submit(action, one) for one in batch]
            self._follow(lambda _: over(futures), WORK_DEADLINE)
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

        found = wait_for(look, deadline, self._phase, interval=0.2, seen=self._seen)
        assert found is not None
        return found

    def _seen(self) -> str:
        """The newest report in a line."""
        report = self._newest
        if report is None:
            return f"no report of the agent; its log is {self.agent.log}"
        capacity = report.plan.capacity
        unread = [one.observation.name for one in report.domains if one.observation.process is None]
        return (
            f"{len(report.domains)} VMs" + (f", unread: {', '.join(unread)}" if unread else "") + f"; headroom"
            f" {mib(capacity.headroom)} MiB, bounded by {capacity.bound}; a VM counts {mib(report.slot)} MiB;"
            f" new: {', '.join(sorted(_new(report))) or 'none'}; the agent's log is {self.agent.log}"
        )

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
    return not _new(report) and report.plan.capacity.bound not in ("rate", "stale", "pressure")


def _new(report: Report) -> list[str]:
    """Names of the VMs that count in full because they have not been observed for long enough."""
    names = {one.observation.uuid: one.observation.name for one in report.domains}
    return [names.get(one.uuid, one.uuid) for one in report.plan.demands if one.reason in ("new", "unobserved")]


def _returned(found: GuestResult) -> bool:
    return found.resident_before_free - found.resident_after_free >= BROKEN * found.freed > 0


def _not_returned(held: Sequence[GuestResult]) -> str:
    each = "; ".join(
        f"{one.name} freed {mib(one.freed)} MiB by its own count, and"
        f" {mib(one.resident_before_free - one.resident_after_free)} MiB came back to the host"
        f" ({mib(one.resident_before_free)} MiB resident before, {mib(one.resident_after_free)} after)"
        for one in held
    )
    return (
        f"{each}. Within {DRAIN_DEADLINE:g} s at least half was expected, and nine tenths are usual. Free page"
        " reporting does not work in these guests: boot one with `lab/lab up --guests 1`, and look at its"
        " /sys/module/page_reporting/parameters and at QEMU's log"
    )
