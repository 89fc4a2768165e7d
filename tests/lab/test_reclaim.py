"""Cold page cache comes back on one request, beside a balloon: how much, how fast, the cost to a hot set."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import libvirt
import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.objects.guest import GuestSource
from memhint.objects.lever import LeverName, Observed
from memhint.objects.reclaim import Compaction, Reclaim, ReclaimState, Stop
from memhint.objects.report import Reclaimable
from memhint.objects.units import KIB, mib
from memhint.objects.verdict import Reason
from memhint.planner.hold import PART
from tests.lab.watch import holds, lever_of

MEMORY = 1 * GIB
HOT = 40 * MIB
FRAGMENTED = 190 * MIB  # half of it is free, in single pages
WINDOW = 10.0  # seconds that the guest's PSI is averaged over
PAGE = 4 * KIB


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[AgentProcess, Guest]]:
    with Lab(guests=1, memory=MEMORY, budget=3 * GIB, kernel="6.12-memhint", agent="memhint") as lab:
        host = lab.hosts[0]
        with AgentProcess(host) as agent:
            agent.memhint("set", host.guests[0].name, "guest_actions=allow")
            yield agent, host.guests[0]


@pytest.fixture(autouse=True)
def _nothing_is_held_afterwards(stage: tuple[AgentProcess, Guest]) -> Iterator[None]:
    """A test that fails while it holds leaves nothing of it to the next one."""
    yield
    agent, _ = stage
    for one in agent.store().reclaims.open():
        agent.store().reclaims.interrupt(one.request.id, "the test is over")
        end_of(agent, one.request.id)


@dataclass(frozen=True)
class Cost:
    """What getting the memory took. Bytes and seconds."""

    way: str
    cold: int
    returned: int
    seconds: float
    refaults: int
    hot_left: int

    def __str__(self) -> str:
        return (
            f"{self.way}: {mib(self.returned)} of {mib(self.cold)} MiB returned "
            f"({self.returned / self.cold:.0%}) after {self.seconds:.1f} s, "
            f"{self.refaults} refaults of {HOT // PAGE} hot pages, {mib(self.hot_left)} of {mib(HOT)} MiB hot left"
        )


def vmstat(guest: Guest, name: str) -> int:
    for line in str(guest.work("read /proc/vmstat")["text"]).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    raise AssertionError(f"no {name} in the guest's vmstat")


def free_in_large_blocks(guest: Guest) -> int:
    text = str(guest.work("read /proc/buddyinfo")["text"])
    counts = [[int(word) for word in line.split()[4:]] for line in text.splitlines()]
    return sum(count * PAGE << order for row in counts for order, count in enumerate(row) if order >= 9)


def prepare(guest: Guest) -> int:
    """A guest with a hot set, free memory in pieces, and 70 % of its memory in page cache that nobody uses."""
    guest.work("hot stop")
    guest.drop_cache()
    if any(block["name"] == "pieces" for block in guest.work("list")["blocks"]):
        guest.free("pieces")
    wait_for(lambda: guest.meminfo()["Buffers"] < 0.1 * MEMORY, 60.0, "an empty page cache")
    guest.hot(HOT)
    cold = int(0.7 * guest.meminfo()["MemTotal"]) // MIB * MIB
    guest.fill_cache(cold)
    guest.fragment("pieces", FRAGMENTED)  # last, or the cache would take the pieces
    wait_for(lambda: guest.hot_resident() == HOT, 60.0, "all of the hot set to be there")
    # Single pages stay on the CPU's own lists for some seconds, where nothing counts them as free.
    wait_for(lambda: free_in_large_blocks(guest) <= 0.5 * guest.meminfo()["MemFree"], 60.0, "free memory in pieces")
    wait_for(lambda: guest.resident() >= cold + HOT, 60.0, "the host to bear the cache")
    # An average over ten seconds takes 46 s from all of the time to a hundredth of it.
    wait_for(lambda: pressure_of(guest) < 1.0, 120.0, "a guest at ease")
    return cold


def shown(agent: AgentProcess, guest: Guest, cold: int) -> Reclaimable | None:
    """What the report says a reclaim could bring, once it is no less than the cold cache, by the guest's own word.

    A guest that just read its disk may answer late: then the balloon's statistics stand for it.
    """
    (found,) = (one for one in agent.domain(guest.name).reclaimable if one.lever is LeverName.CACHE)
    known = found.at_most is not None and found.at_most >= cold
    return found if known and found.source is GuestSource.KERNEL else None


def test_a_dry_run_tells_and_a_guest_without_consent_is_left_alone(stage) -> None:
    agent, guest = stage
    agent.memhint("set", guest.name, "guest_actions=deny")
    refused = agent.memhint("reclaim", guest.name, check=False)
    assert refused.returncode == 5
    assert "guest_actions" in refused.stderr
    agent.memhint("set", guest.name, "guest_actions=allow")
    before = guest.meminfo()["Buffers"]
    planned = json.loads(agent.memhint("reclaim", guest.name, "--dry-run", "--json").stdout)
    assert planned["verdict"]["answer"] == "planned"
    assert guest.meminfo()["Buffers"] >= before


def test_cold_cache_comes_back_and_the_hot_set_stays(stage, capsys) -> None:
    agent, guest = stage
    cold = prepare(guest)
    free, large = guest.meminfo()["MemFree"], free_in_large_blocks(guest)
    told = wait_for(lambda: shown(agent, guest, cold), 60.0, "the cache to show")
    assert told.source is GuestSource.KERNEL
    assert told.at is not None
    resident, refaults = guest.resident(), vmstat(guest, "workingset_refault_file")
    began = time.monotonic()
    done = json.loads(agent.memhint("reclaim", guest.name, "--json").stdout)
    left = 60.0 - (time.monotonic() - began)
    wait_for(lambda: resident - guest.resident() >= 0.8 * cold, left, "80 % of the cold cache to come back")
    took = time.monotonic() - began
    returned = resident - guest.resident()
    cost = Cost(
        "reclaim", cold, returned, took, vmstat(guest, "workingset_refault_file") - refaults, guest.hot_resident()
    )
    with capsys.disabled():
        print(f"\n{cost}; reclaimed in the guest {mib(done['reclaimed'])} MiB in {done['calls']} calls, "
              f"flushed {mib(done['flushed'])} MiB, {done['compaction']}, pressure {done['pressure']} %, "
              f"{done['ended'] - done['begun']:.1f} s")  # fmt: skip
        print(f"free before: {mib(free)} MiB, {mib(large)} of them in blocks that can be reported; after: "
              f"{mib(guest.meminfo()['MemFree'])} and {mib(free_in_large_blocks(guest))} MiB")  # fmt: skip
    assert done["state"] == "done"
    assert done["stop"] in (Stop.DONE, Stop.EXHAUSTED)
    assert done["compaction"] in (Compaction.DONE, Compaction.RUNNING)
    assert done["returned"] >= 0.8 * cold
    assert cost.refaults <= HOT // PAGE // 100
    assert cost.hot_left >= 0.99 * HOT
    # The store has its end before the agent has let go of it.
    wait_for(
        lambda: lever_of(agent.domain(guest.name), LeverName.CACHE).observed is Observed.OFF,
        60.0,
        "the lever to be off",
    )


def test_a_balloon_of_the_same_size_beside_it(stage, capsys) -> None:
    _, guest = stage
    cold = prepare(guest)
    domain = guest.domain()
    resident, refaults = guest.resident(), vmstat(guest, "workingset_refault_file")
    began = time.monotonic()
    try:
        domain.setMemoryFlags((MEMORY - cold) // KIB, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        wait_for(lambda: domain.memoryStats()["actual"] <= (MEMORY - cold) // KIB, 180.0, "the balloon to be inflated")
        took = time.monotonic() - began
        left = guest.hot_resident()
        refaulted = vmstat(guest, "workingset_refault_file") - refaults
        cost = Cost("balloon", cold, resident - guest.resident(), took, refaulted, left)
        free = guest.meminfo()["MemFree"]
    finally:
        domain.setMemoryFlags(MEMORY // KIB, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        wait_for(lambda: domain.memoryStats()["actual"] >= MEMORY // KIB, 180.0, "the balloon to be empty")
    with capsys.disabled():
        print(f"\n{cost}; {mib(free)} MiB free in the guest meanwhile, {mib(guest.resident())} MiB resident afterwards")
    assert cost.returned > 0.3 * cold


def pressure_of(guest: Guest) -> float:
    """Percent of the last ten seconds that something in the guest waited for memory."""
    return float(str(guest.work("read /proc/pressure/memory")["text"]).split("avg10=")[1].split()[0])


def test_it_stops_when_the_guest_comes_under_pressure(stage, capsys) -> None:
    agent, guest = stage
    prepare(guest)
    limit = 10.0
    words = ["reclaim", guest.name, "--psi-limit", str(limit), "--no-wait", "--json"]
    guest.work("hog 64 16")
    began = time.time()
    try:
        queued = json.loads(agent.memhint(*words).stdout)["request"]["id"]
        wait_for(lambda: pressure_of(guest) > limit, 60.0, "the guest's pressure to pass the limit")
        over = time.time()
        wait_for(lambda: row(agent, queued).stop is not None, 60.0, "it to stop")
        stopped = time.time()
        ended = end_of(agent, queued)  # what was given up is counted and reported to the host first
    finally:
        guest.work("hog stop")
    with capsys.disabled():
        print(f"\na hog {began - ended.begun:+.1f} s from its beginning, the guest's avg10 above {limit:g} % "
              f"{over - ended.begun:+.1f} s, stopped {stopped - ended.begun:+.1f} s, "
              f"its end {ended.ended - ended.begun:+.1f} s: {ended.verdict}")  # fmt: skip
    assert ended.stop is Stop.PRESSURE
    assert ended.verdict.reason is Reason.GUEST_PRESSURE
    assert ended.reclaimed < ended.asked
    assert stopped - over <= 3 * WINDOW  # a call may go unanswered, and the next one comes later


def held(agent: AgentProcess, guest: Guest, *words: str) -> str:
    """A reclaim of all that is cold, which holds: its id."""
    prepare(guest)
    done = json.loads(agent.memhint("reclaim", guest.name, "--hold", "10m", "--json", *words).stdout)
    assert done["state"] == ReclaimState.HOLDING
    assert done["held"]["until"] - done["held"]["since"] == 600
    return str(done["request"]["id"])


def row(agent: AgentProcess, request: str) -> Reclaim:
    found = agent.store().reclaims.get(request)
    assert found is not None
    return found


def end_of(agent: AgentProcess, request: str, deadline: float = 60.0) -> Reclaim:
    return wait_for(lambda: (one := row(agent, request)).state.ended and one, deadline, "the hold to end")


def test_what_a_guest_fills_again_is_taken_back_while_it_is_held(stage, capsys) -> None:
    agent, guest = stage
    request = held(agent, guest)
    resident, refaults, filled = guest.resident(), vmstat(guest, "workingset_refault_file"), 400 * MIB
    guest.fill_cache(filled)
    read = time.monotonic()

    def back() -> bool:
        # A look may come while the guest still reads: what comes after it stays, up to the margin of a hold.
        now = row(agent, request)
        left = filled - now.held.again
        return left <= now.reclaimed // PART and guest.resident() <= resident + max(0, left) + 0.2 * filled

    wait_for(
        back,
        120.0,
        "what was filled again to come back",
        seen=lambda: f"{row(agent, request)}; resident {mib(guest.resident() - resident)} MiB above; {guest.meminfo()}",
    )
    took, now = time.monotonic() - read, row(agent, request)
    with capsys.disabled():
        print(f"\n{mib(filled)} MiB filled again, {mib(now.held.again)} of them taken back in {now.held.rounds} goes, "
              f"the last {took:.1f} s after they were read; resident {mib(guest.resident() - resident)} MiB above, "
              f"{vmstat(guest, 'workingset_refault_file') - refaults} refaults, "
              f"{mib(guest.hot_resident())} of {mib(HOT)} MiB hot left")  # fmt: skip
    assert now.state is ReclaimState.HOLDING
    # What memhint takes while the guest fills its cache borders on what is hot: of it at most a hundredth is hot pages,
    # and those come back, for they are read twice a second.
    wait_for(lambda: guest.hot_resident() >= 0.99 * HOT, 30.0, "the hot set to be there")
    assert vmstat(guest, "workingset_refault_file") - refaults <= now.held.again // PAGE // 100
    agent.store().reclaims.interrupt(request, "enough")
    ended = end_of(agent, request)
    assert (ended.state, ended.held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    cached = guest.meminfo()["Buffers"]
    guest.fill_cache(200 * MIB)
    holds(lambda: guest.meminfo()["Buffers"] >= cached + 150 * MIB, 5.0, "what is not held any more stays")


def test_a_guest_that_comes_under_pressure_ends_the_hold(stage, capsys) -> None:
    agent, guest = stage
    request, limit = held(agent, guest), 10.0
    guest.work("hog 64 16")
    try:
        wait_for(lambda: pressure_of(guest) > limit, 60.0, "the guest's pressure to pass the limit")
        over = time.time()
        ended = end_of(agent, request)
    finally:
        guest.work("hog stop")
    with capsys.disabled():
        print(f"\nthe guest's avg10 above {limit:g} %, {ended.ended - over:+.1f} s later: {ended.verdict}")
    assert (ended.state, ended.held.stop) == (ReclaimState.DONE, Stop.PRESSURE)
    assert ended.verdict.reason is Reason.GUEST_PRESSURE
    assert ended.ended - over <= 3 * WINDOW  # one look may fail, and the next comes later


def test_a_guest_that_uses_what_it_filled_again_keeps_it(stage, capsys) -> None:
    agent, guest = stage
    # Reading what was given up again is pressure too, the more the slower the disk: here that is not to end it first.
    request, wanted = held(agent, guest, "--psi-limit", "100"), 300 * MIB
    guest.work("hot stop")
    guest.hot(wanted)
    ended = end_of(agent, request, 120.0)
    with capsys.disabled():
        print(f"\n{ended.verdict}")
    assert (ended.held.stop, ended.verdict.reason) == (Stop.WANTED, Reason.IN_USE)
    wait_for(lambda: guest.hot_resident() >= 0.99 * wanted, 120.0, "what it uses to be there")
