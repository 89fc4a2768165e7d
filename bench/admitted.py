"""How many guests memhint promises room for, and what becomes of them when all want all of their memory at once."""

from __future__ import annotations

from dataclasses import dataclass

from bench import ksm
from bench.cpu import cpu_seconds
from bench.filled_host import Setup, Sizes, add_used, agent_of, host_of, settle
from bench.harness.bench import Say
from bench.swapped import watched
from lab.agent import AgentProcess
from lab.errors import LabError
from lab.host import Host
from lab.packing import Storm, steady, storm
from lab.waiting import wait_for
from memhint.objects.report import Report
from memhint.objects.units import mib

PATIENCE = 45.0  # seconds without room for one more VM: the host is full


@dataclass(frozen=True, slots=True)
class Admitted:
    """Guests and bytes.

    ``swapped`` was written to swap before the storm, ``stormed`` is in swap after it; the storm's times are in seconds.
    """

    guests: int
    swapped: int
    used: int
    ksm_cpu: float
    agent_cpu: float
    kills: int
    lost: int
    stormed: int
    wanted: int
    slowest: float | None


def promised(setup: Setup, sizes: Sizes, deadline: float, say: Say) -> Admitted:
    """Add guests for as long as the agent promises room for one of them; each uses its memory once. Then the storm.

    :param deadline: seconds after which a guest counts as lost
    """
    with host_of(setup, sizes) as host:
        before = ksm.ksmd_seconds()
        with agent_of(host, setup) as agent, watched(host) as written:
            assert agent is not None
            while len(host.guests) < sizes.most and _room(agent, host):
                add_used(host, setup, sizes)
                settle(host, sizes, thorough=False)
                say(f"{setup.name}: {len(host.guests)} guests admitted, {mib(host.usage())} MiB used")
            swapped, used = written.total(), host.usage()
            merging = ksm.ksmd_seconds() - before
            assert agent.process is not None
            cpu = cpu_seconds(agent.process.pid)
            outcome = storm(host.guests, deadline)
            return _told(host, outcome, swapped, used, merging, cpu)


def fixed(setup: Setup, sizes: Sizes, ratio: float, deadline: float, say: Say) -> Admitted:
    """As many as a fixed ratio of assigned memory lets in, whatever they use."""
    with host_of(setup, sizes) as host, watched(host) as written:
        while len(host.guests) < int(ratio * sizes.budget) // sizes.guest:
            add_used(host, setup, sizes)
            settle(host, sizes, thorough=False)
        say(f"{setup.name}: {len(host.guests)} guests, {mib(host.usage())} MiB used")
        swapped, used = written.total(), host.usage()
        return _told(host, storm(host.guests, deadline), swapped, used, 0.0, 0.0)


def _room(agent: AgentProcess, host: Host) -> bool:
    """Whether the agent comes to promise one more."""

    def promise() -> Report | None:
        seen = agent.newest()
        if seen is None or len(seen.domains) != len(host.guests) or not steady(seen):
            return None
        return seen if seen.plan.capacity.slots(seen.slot) else None

    try:
        return wait_for(promise, PATIENCE, "room for one more VM") is not None
    except LabError:
        return False


def _told(host: Host, outcome: list[Storm], swapped: int, used: int, merging: float, cpu: float) -> Admitted:
    back = [one.answered for one in outcome if one.answered is not None]
    return Admitted(
        guests=len(outcome),
        swapped=swapped,
        used=used,
        ksm_cpu=merging,
        agent_cpu=cpu,
        kills=host.oom_kills(),
        lost=len(outcome) - len(back),
        stormed=host.swap_used(),
        wanted=sum(one.touched for one in outcome),
        slowest=max(back, default=None),
    )
