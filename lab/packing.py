"""Filling a host with guests as far as its agent promises, and letting all of them want everything at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.agent import AgentProcess
from lab.at_once import at_once
from lab.errors import LabError
from lab.guest import Guest
from lab.host import Host
from lab.sizes import MIB
from lab.waiting import wait_for
from memhint.objects.report import Report

SETTLED = 35.0  # seconds without room for one more VM: the host is full
MARGIN = 32 * MIB  # that a guest's own kernel and agent keep to themselves, and may take until it is asked


@dataclass(frozen=True, slots=True)
class Storm:
    """What became of one guest. Seconds since the storm began; None for one that did not come back."""

    name: str
    touched: int  # bytes that it asked for
    filled: float | None  # until it had all of them
    answered: float | None  # until workload and guest agent answered again


def pack(agent: AgentProcess, host: Host, vm: Callable[[int], dict[str, Any]]) -> int:
    """Add VMs for as long as the agent promises room for one of its slots; how many there are then.

    :param vm: what `Host.add_guest` is told of the n-th VM
    """
    while True:
        running = len(host.guests)

        def room(running: int = running) -> Report | None:
            seen = agent.newest()
            if seen is None or len(seen.domains) != running or not seen.plan.capacity.slots(seen.slot):
                return None
            return seen if steady(seen) else None

        try:
            report = wait_for(room, SETTLED, "room for one more VM")
        except LabError:
            return running
        assert report is not None
        host.add_guests([vm(running + number) for number in range(report.plan.capacity.slots(report.slot))])


def steady(report: Report) -> bool:
    """No VM is still counted in full because it is new, and the capacity's own rate limit is not what bounds it."""
    new = any(one.reason in ("new", "unobserved") for one in report.plan.demands)
    return not new and report.plan.capacity.bound not in ("rate", "stale", "pressure")


def storm(guests: Sequence[Guest], deadline: float) -> list[Storm]:
    """Every guest writes to all the memory it has, at the same moment; it is over when each answers, or is gone.

    :param deadline: seconds after which a guest counts as not coming back
    """
    sizes = [int(one.meminfo()["MemAvailable"]) - MARGIN for one in guests]
    began = time.monotonic()

    def one(guest: Guest, size: int) -> Storm:
        filled = answered = None
        try:
            guest.work(f"alloc storm {size // MIB} random", deadline=deadline)
            filled = time.monotonic() - began
        except LabError:
            pass  # it may be slow, or gone: what follows tells
        try:
            guest.work("ping", deadline=max(1.0, deadline - (time.monotonic() - began)))
            guest.wait_agent(max(1.0, deadline - (time.monotonic() - began)))
            answered = time.monotonic() - began
        except LabError:
            pass
        return Storm(guest.name, size, filled, answered)

    with at_once(max(1, len(guests))) as pool:
        return list(pool.map(one, guests, sizes))
