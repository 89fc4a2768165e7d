"""How many guests a host takes until it swaps, each of them using most of its memory once and freeing it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from bench import ksm, swapped
from bench.cpu import cpu_seconds
from bench.harness.bench import Say
from bench.harness.precondition import require
from bench.resident import Resident, resident_of
from lab import Lab, swap
from lab.agent import AgentProcess
from lab.host import Host
from memhint.objects.units import MIB, mib

PROJECT = "density"  # whose guests they are: one owner's may merge
TRANSLATION_CACHE = 4 * MIB
"""Of each emulating QEMU, in every arm: with KVM there is none. Guests fill memory as fast as with 32 MiB, and boot in
5 s of CPU instead of 2."""
SMOKE_CACHE = 16 * MIB
"""The same where nothing is compared: guests boot in 2 s of CPU."""
NO_SWAP = 1 * MIB
"""Bytes in swap up to which none counts as used: the source counts a guest with 1 MB of swap as the first beyond."""
LITTLE = 4 * MIB  # by which it may fall all the same
ROUNDS = 3  # of KSM over everything, where it runs: one is under way, one remembers, one merges
_LOOK = 0.5


@dataclass(frozen=True, slots=True)
class Setup:
    """One arm: what its guests stand on, and who looks after their memory."""

    name: str
    kernel: str
    agent: str = "stock"
    reporting: bool = True
    ksm: Mapping[str, str] | None = None  # settings that it runs with; None: it does not
    memhint: Mapping[str, Mapping[str, Any]] | None = None  # settings of an agent; None: there is none
    recycler: bool = False  # balloons with the page recycler


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes, and guests."""

    budget: int
    guest: int
    work: int
    swap: int
    most: int  # guests after which the count ends
    quiet: float = 8.0  # seconds in which a settled host's usage does not fall any more
    patience: float = 75.0  # seconds that it gets for that, and KSM for its rounds, at most
    translation_cache: int = TRANSLATION_CACHE


@dataclass(slots=True)
class Count:
    """What one arm came to. ``guests`` ran without swap; ``used`` has the host's bytes after each of them settled."""

    guests: int = 0
    swapped: int = 0  # bytes written to swap, with the first guest beyond
    ended: bool = False  # the count was stopped, not the guests
    used: list[int] = field(default_factory=list)
    ksm_cpu: list[float] = field(default_factory=list)  # seconds since the first guest came, after each settled
    agent_cpu: float = 0.0
    resident: list[Resident] = field(default_factory=list)  # of each idle guest, before the one that swaps


def count(setup: Setup, sizes: Sizes, say: Say) -> Count:
    """Add guests until the host swaps. Raises PreconditionFailed where budget or swap are not what they should be."""
    found = Count()
    with host_of(setup, sizes) as host:
        merging = ksm.scanning(setup.ksm) if setup.ksm is not None else nullcontext()
        with merging, agent_of(host, setup) as agent, swapped.watched(host) as written:
            _fill(host, setup, sizes, found, written, say)
            if agent is not None and agent.process is not None:
                found.agent_cpu = cpu_seconds(agent.process.pid)
    return found


def _fill(host: Host, setup: Setup, sizes: Sizes, found: Count, written: swapped.Swapped, say: Say) -> None:
    merging = ksm.ksmd_seconds()
    while found.guests < sizes.most:
        add_used(host, setup, sizes)
        # KSM goes on while the next ones come; only where it will be tight it has to be through.
        settle(host, sizes, thorough=host.usage() + 2 * sizes.work > sizes.budget)
        found.swapped = written.total()
        if found.swapped > NO_SWAP:
            say(f"{setup.name}: {found.guests} guests; one more swaps {mib(found.swapped)} MiB")
            return
        found.guests += 1
        found.used.append(host.usage())
        found.ksm_cpu.append(ksm.ksmd_seconds() - merging)
        found.resident = [resident_of(one.pid(), one.memory) for one in host.guests]
        say(f"{setup.name}: {found.guests} guests, {mib(found.used[-1])} MiB used")
    found.ended = True


def add_used(host: Host, setup: Setup, sizes: Sizes) -> None:
    """One more guest, which uses ``sizes.work`` bytes once and frees them.

    Raises PreconditionFailed where the first one shows that the budget is not enforced.
    """
    guest = host.add_guest(f"vm{len(host.guests) + 1}", reporting=setup.reporting, project=PROJECT)
    first = len(host.guests) == 1
    if first:
        settle(host, sizes, thorough=False)  # what its boot has freed may leave while it allocates
    guest.alloc("work", sizes.work)
    if first:
        enforced(host, sizes)
    guest.free("work")


def settle(host: Host, sizes: Sizes, *, thorough: bool) -> None:
    """Wait until the host's usage does not fall any more; `thorough`: and KSM, where it runs, was over everything."""
    lowest, began, scans = host.usage(), time.monotonic(), ksm.full_scans()
    still = began
    while (now := time.monotonic()) - began < sizes.patience:
        if now - still >= sizes.quiet and (not thorough or not ksm.running() or ksm.full_scans() >= scans + ROUNDS):
            return
        time.sleep(_LOOK)
        seen = host.usage()
        if seen < lowest - LITTLE:
            lowest, still = seen, time.monotonic()


def enforced(host: Host, sizes: Sizes) -> None:
    """Look at the cgroup itself: its limits, and that what guests hold is charged to it."""
    require(
        host.budget == sizes.budget, f"the cgroup's limit is {mib(host.budget)} MiB and should be {mib(sizes.budget)}"
    )
    charged, held = host.usage(), sum(one.status_field("RssAnon") for one in host.guests)
    require(
        charged > held / 2,  # merged pages are charged once
        f"guests hold {mib(held)} MiB and the host's cgroup is charged {mib(charged)}: it is not enforced",
    )
    require(bool(swap.active()), "there is no swap area: swap could not be counted")


@contextmanager
def host_of(setup: Setup, sizes: Sizes) -> Iterator[Host]:
    """A host without guests, on the same QEMU in every arm."""
    with Lab(
        guests=0,
        memory=sizes.guest,
        budget=sizes.budget,
        swap=sizes.swap,
        kernel=setup.kernel,
        agent=setup.agent,
        emulator="memhint",
        translation_cache=sizes.translation_cache,
    ) as lab:
        yield lab.hosts[0]


@contextmanager
def agent_of(host: Host, setup: Setup) -> Iterator[AgentProcess | None]:
    """The agent of an arm that has one. A context manager."""
    if setup.memhint is None:
        yield None
        return
    merging = ksm.kept() if "dedup" in setup.memhint else nullcontext()
    with merging, AgentProcess(host, setup.memhint) as agent:
        yield agent
        # What it merged it would have to separate, and the guests end anyway.
        for guest in list(host.guests):
            guest.stop()


def environment(sizes: Sizes) -> dict[str, Any]:
    """What the figures of a bench with such hosts depend on."""
    return {
        "budget_mib": mib(sizes.budget),
        "guest_mib": mib(sizes.guest),
        "swap_mib": mib(sizes.swap),
        "translation_cache_mib": mib(sizes.translation_cache),
        "qemu": "10.0 in all arms",
    }
