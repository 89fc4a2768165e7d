"""How many guests that work now and then a host bears without swap."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from bench import ksm
from bench.cpu import cpu_seconds, thread_seconds
from bench.filled_host import NO_SWAP, PROJECT, Setup, Sizes, agent_of, enforced, host_of
from bench.fitting import MemorySample, too_small
from bench.harness.bench import Say
from bench.harness.precondition import require
from bench.resident import resident_of
from bench.rota import Cycle, Done, Rota, working
from lab.agent import AgentProcess
from lab.host import Host
from memhint.objects.units import mib

SHARE = 20  # a new guest comes after this part of a period
RECYCLER = "recycler/"  # how the names of QEMU's threads for it begin
CALM = 2.0  # periods that guests which are late get to catch up, at most
_LOOK = 0.5
_PATIENCE = 30  # periods in which one cycle must end, on however busy a machine


@dataclass(slots=True)
class PeriodResult:
    """What one arm came to: ``guests`` fitted for a whole period. What follows is of that period, unless it says else.

    CPU times are in seconds.
    """

    guests: int = 0
    ended: bool = False  # no more guests were added than the size has, and all of them fitted
    used: list[int] = field(default_factory=list)  # bytes that the host had to keep, in memory or in swap
    own: int = 0  # bytes of all QEMUs beside their guests' memory, in the end, in memory or in swap
    cycles: list[Done] = field(default_factory=list)
    missed: int = 0  # cycles that could not begin
    kills: int = 0  # from the first guest on
    ksm_cpu: float = 0.0
    agent_cpu: float = 0.0
    recycler_cpu: float = 0.0
    seconds: float = 0.0


def bear(setup: Setup, sizes: Sizes, cycle: Cycle, say: Say) -> PeriodResult:
    """Add guests until the host swaps, then take some away until all that is in use fits for a whole period.

    Raises PreconditionFailed where budget or swap are not what they should be.
    """
    found = PeriodResult()
    with host_of(setup, sizes) as host:
        merging = ksm.scanning(setup.ksm) if setup.ksm is not None else nullcontext()
        with merging, agent_of(host, setup) as agent, working(cycle) as rota:
            found.ended = not _grow(host, setup, sizes, cycle, rota, say)
            _calm_down(cycle, rota)
            while not _prove(host, sizes.budget, cycle, rota, agent, found, setup.name, say):
                found.ended = False
                _shrink(host, rota)
                _calm_down(cycle, rota)
            rota.stop()
    return found


def _grow(host: Host, setup: Setup, sizes: Sizes, cycle: Cycle, rota: Rota, say: Say) -> bool:
    """Add guests until the host is too small for them, also when the last one has booted; whether it came to that."""
    while len(host.guests) < sizes.most:
        number = len(host.guests) + 1
        guest = host.add_guest(f"vm{number}", reporting=setup.reporting, recycler=setup.recycler, project=PROJECT)
        if number == 1:
            guest.alloc("first", sizes.work)
            enforced(host, sizes)
            guest.free("first")
        # As they are, so many fill the host: until then each is counted in full before the next one comes.
        few = number * sizes.work < 3 * sizes.budget // 2
        rota.add(guest, at_once=few)
        looks = _watch(host, cycle.busy + 1 if few else cycle.period / SHARE, sizes.budget)
        say(f"{setup.name}: {number} guests, {mib(looks[-1].in_use)} MiB in use, {mib(looks[-1].swap)} in swap")
        if looks[-1].swap > NO_SWAP or too_small(looks, sizes.budget) is not None:
            # To boot takes a guest seconds of CPU where it is emulated: the others fall behind, and hold their peaks.
            _calm_down(cycle, rota)
            if too_small(_watch(host, cycle.period / SHARE, sizes.budget), sizes.budget) is not None:
                return True
    return False


def _calm_down(cycle: Cycle, rota: Rota) -> None:
    """Wait until no guest is late any more: what an overload has left says nothing of the guests that are there now."""
    until = time.monotonic() + CALM * cycle.period
    while rota.late() and time.monotonic() < until:
        time.sleep(_LOOK)


def _watch(host: Host, seconds: float, budget: int) -> list[MemorySample]:
    """MemorySample until the time is over, or the host is seen to be too small."""
    until, looks = time.monotonic() + seconds, []
    while True:
        looks.append(MemorySample(host.in_use(), host.swap_used()))
        if time.monotonic() >= until or too_small(looks, budget) is not None:
            return looks
        time.sleep(_LOOK)


def _prove(
    host: Host,
    budget: int,
    cycle: Cycle,
    rota: Rota,
    agent: AgentProcess | None,
    found: PeriodResult,
    name: str,
    say: Say,
) -> bool:
    """Whether all fits for a whole period: for more than one, where in the first no cycle came to its end."""
    require(bool(host.guests), f"{name}: the host is too small for a single guest")
    rota.taken()
    before, began = _cpu(host, agent), time.monotonic()
    looks: list[MemorySample] = []
    found.cycles, found.missed = [], 0
    for _ in range(_PATIENCE):
        looks += _watch(host, cycle.period, budget)
        why = too_small(looks, budget)
        if why is not None:
            say(f"{name}: {len(host.guests)} guests do not fit: {why}")
            return False
        done, missed = rota.taken()
        found.cycles += done
        found.missed += missed
        if found.cycles:
            break
    require(bool(found.cycles), f"{name}: no guest came to the end of a cycle in {_PATIENCE} periods")
    found.guests, found.kills = len(host.guests), host.oom_kills()
    found.used = [look.in_use for look in looks]
    found.seconds = time.monotonic() - began
    found.ksm_cpu, found.agent_cpu, found.recycler_cpu = (
        after - then for after, then in zip(_cpu(host, agent), before, strict=True)
    )
    held = [resident_of(one.pid(), one.memory) for one in host.guests]
    found.own = sum(one.own + one.own_swapped for one in held)
    say(f"{name}: {found.guests} guests fit for {found.seconds:.0f} s, at most {mib(max(found.used))} MiB")
    return True


def _shrink(host: Host, rota: Rota) -> None:
    """Take the newest away: one in twenty."""
    for _ in range(max(1, len(host.guests) // 20)):
        guest = host.guests[-1]
        rota.remove(guest)
        guest.destroy()


def _cpu(host: Host, agent: AgentProcess | None) -> tuple[float, float, float]:
    """Of ksmd, of the agent, and of all recyclers so far."""
    own = cpu_seconds(agent.process.pid) if agent is not None and agent.process is not None else 0.0
    return ksm.ksmd_seconds(), own, sum(thread_seconds(Path(f"/proc/{one.pid()}"), RECYCLER) for one in host.guests)
