"""The estimate on real guests: as much as KSM then merges, within its CPU, and without a trace on the guests.

KSM is one for the whole machine, so what it saves is not read from its counters, which other guests of this machine
would be part of, but from the page frames behind these guests: pages that share one were merged.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import Guest, Lab, wait_for
from lab.agent import AgentProcess
from lab.sizes import GIB, MIB
from memhint.kernel.guest_pages import GuestPages, guest_ram
from memhint.kernel.ksm import KsmKnob, read_knob, read_ksm, write_knob
from memhint.kernel.process import find_by_comm, process_memory
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.estimate import DedupEstimate
from memhint.objects.lever import LeverName
from memhint.objects.verdict import Answer, Reason
from memhint.pages.candidates import Candidate
from memhint.pages.samples import PageSamples
from memhint.planner.dedup_estimate import KsmPace
from tests.lab.watch import lever_of, named, wait_verdict

ROOT = KernelRoot()
DATA = 96 * MIB  # in every guest
BUDGET = 0.9  # percent of a core
GOAL = 1.0
HURRIED = 10 * BUDGET  # what is estimated is the same, in a tenth of the time
NAMES = "abc"
PIDFD_OPEN, PROCESS_MADVISE, MADV_PAGEOUT = 434, 440, 21


@pytest.fixture(scope="module")
def guests() -> Iterator[dict[str, Guest]]:
    assert read_knob(ROOT, KsmKnob.RUN) == "0", "this machine's KSM is in use: the test needs it for itself"
    with Lab(guests=0, budget=3 * GIB, swap=1 * GIB) as lab:
        wished = [{"name": name, "memory": 256 * MIB, "project": "p1"} for name in NAMES]
        yield {one.name: one for one in lab.hosts[0].add_guests(wished)}


@pytest.fixture(autouse=True)
def _nothing_left(guests: dict[str, Guest]) -> None:
    """Whatever the test before left in the guests, or merged of them."""
    let_go(guests)
    write_knob(ROOT, KsmKnob.RUN, "2")
    write_knob(ROOT, KsmKnob.RUN, "0")


@pytest.fixture
def ksm() -> Iterator[None]:
    """KSM at full speed when it is switched on, everything separated and as it was in the end."""
    changed = {KsmKnob.ADVISOR_MODE: "none", KsmKnob.PAGES_TO_SCAN: "20000", KsmKnob.SLEEP_MILLISECS: "5"}
    changed[KsmKnob.USE_ZERO_PAGES] = "1"
    before = {knob: read_knob(ROOT, knob) for knob in (*changed, KsmKnob.RUN)}
    try:
        for knob, value in changed.items():
            write_knob(ROOT, knob, value)
        yield
    finally:
        write_knob(ROOT, KsmKnob.RUN, "2")
        for knob in (KsmKnob.RUN, *changed):
            if knob is not KsmKnob.PAGES_TO_SCAN or before[KsmKnob.ADVISOR_MODE] == "none":
                write_knob(ROOT, knob, before[knob])


def full_scans(count: int) -> None:
    wanted = read_ksm(ROOT).full_scans + count
    wait_for(lambda: read_ksm(ROOT).full_scans >= wanted, 300.0, f"{count} full scans")


def frames(guest: Guest) -> list[int]:
    """The page frame behind every page of a guest's memory that is present; what the estimate does not look at."""
    found: list[int] = []
    with open(f"/proc/{guest.pid()}/pagemap", "rb", buffering=0) as pagemap:
        for span in guest_ram(ROOT, guest.pid()):
            entries = array("Q")
            entries.frombytes(os.pread(pagemap.fileno(), (span.end - span.start) // PAGE_SIZE * 8, span.start >> 9))
            found.extend(entry & ((1 << 55) - 1) for entry in entries if entry >> 63 & 1)
    return found


def merged(guests: dict[str, Guest]) -> int:
    """Bytes that sharing of page frames saves among these guests, pages of zeros included."""
    every = [frame for guest in guests.values() for frame in frames(guest)]
    zero_pages = sum(process_memory(ROOT, guest.pid()).ksm_zero or 0 for guest in guests.values())
    distinct = len(set(every))
    # The kernel's zero page is one of the frames where there are any; it belongs to nobody, so all of them are saved.
    return (len(every) - distinct) * PAGE_SIZE + (PAGE_SIZE if zero_pages else 0)


def footprint(guests: dict[str, Guest]) -> int:
    return sum(process_memory(ROOT, guest.pid()).footprint for guest in guests.values())


def candidates(guests: dict[str, Guest]) -> dict[str, Candidate]:
    return {one.uuid: Candidate(process_memory(ROOT, one.pid()), "p1", True) for one in guests.values()}


def estimated(guests: dict[str, Guest], budget: float) -> tuple[DedupEstimate, float]:
    """The estimate as the agent makes it in the background, and the percent of a core that its thread took, which is to
    be `budget`."""
    samples = PageSamples(ROOT, PAGE_SIZE, budget, 3600.0, 2.0, KsmPace())
    samples.want(candidates(guests))
    began = time.monotonic()
    samples.start()
    assert samples._thread is not None
    cpu = Path(f"/proc/self/task/{samples._thread.native_id}/schedstat")
    try:
        wait_for(samples.complete, 600.0, "every guest to be looked at")
        taken = int(cpu.read_text().split()[0]) / 1e9
        elapsed = time.monotonic() - began
        found = samples.newest()
        assert found is not None
        looked = sum(one.looked for one in found.vms)
        print(f"\n{taken / (looked / GIB):.2f} s of CPU per GiB, {elapsed:.0f} s for {looked / MIB:.0f} MiB")
    finally:
        samples.close()
    return found, 100 * taken / elapsed


@pytest.mark.parametrize(("percent", "budget"), [(0, HURRIED), (30, BUDGET), (90, HURRIED)])
def test_the_estimate_is_what_ksm_then_merges(guests: dict[str, Guest], ksm: None, percent: int, budget: float) -> None:
    common = DATA * percent // 100 // MIB * MIB
    for guest in guests.values():
        for name, size, content in (("common", common, "seed:7"), ("own", DATA - common, "random")):
            if size:
                guest.alloc(name, size, content)
    try:
        found, cpu = estimated(guests, budget)
        before, shared = footprint(guests), merged(guests)
        (group,) = found.groups
        ksmd = Path(f"/proc/{find_by_comm(ROOT, frozenset({'ksmd'}))['ksmd']}/schedstat")
        began = int(ksmd.read_text().split()[0]), ROOT.read_int("sys/kernel/mm/ksm/pages_scanned")
        write_knob(ROOT, KsmKnob.RUN, "1")
        full_scans(4)
        scanned = ROOT.read_int("sys/kernel/mm/ksm/pages_scanned") - began[1]
        per_page = (int(ksmd.read_text().split()[0]) - began[0]) / 1e3 / scanned
        truth = merged(guests) - shared  # where a guest only read, the kernel's zero page was there before
        error = abs(group.saving - truth) / before
        print(
            f"\n{percent} % shared: {before / MIB:.0f} MiB of footprint, estimated {group.saving / MIB:.1f}"
            f" ± {group.error / MIB:.1f} MiB (zero {group.zero / MIB:.1f}, within {group.within / MIB:.1f}, across"
            f" {group.across / MIB:.1f}, changed {sum(one.changed for one in found.vms) / MIB:.1f}), KSM merged"
            f" {truth / MIB:.1f} MiB: error {100 * error:.2f} % of the"
            f" footprint; {cpu:.2f} % of a core; ksmd took {per_page:.2f} µs for each page that it scanned"
        )
        assert truth >= 0.9 * (len(NAMES) - 1) * common
        assert error <= 0.05
        assert cpu < GOAL * budget / BUDGET
    finally:
        let_go(guests)


def let_go(guests: dict[str, Guest]) -> None:
    """Of all that the guests hold."""
    for guest in guests.values():
        for block in guest.work("list")["blocks"]:
            guest.free(block["name"])


def page_out(guest: Guest) -> None:
    """Ask the kernel to swap out the first half of a guest's memory."""
    span = max(guest_ram(ROOT, guest.pid()), key=lambda one: one.end - one.start)
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = libc.syscall(PIDFD_OPEN, guest.pid(), 0)
    vector = (ctypes.c_size_t * 2)(span.start, (span.end - span.start) // 2)
    try:
        done = libc.syscall(PROCESS_MADVISE, pidfd, ctypes.byref(vector), ctypes.c_size_t(1), MADV_PAGEOUT, 0)
    finally:
        os.close(pidfd)
    assert done > 0, os.strerror(ctypes.get_errno())


def traces(guest: Guest) -> list[tuple[str, int, int]]:
    """What differs after a pass over a guest of which half is swapped out, or was missed by it: before, and after."""
    page_out(guest)
    before = process_memory(ROOT, guest.pid())
    assert before.swap >= 16 * MIB
    present = len(frames(guest))
    samples = PageSamples(ROOT, PAGE_SIZE, 100.0, 3600.0, 0.1, KsmPace())
    samples.want(candidates({"a": guest}))
    wait_for(lambda: samples.step() and samples.complete(), 60.0, "the guest to be looked at", interval=0.001)
    found = samples.newest()
    assert found is not None
    # All that is present but for the kernel's zero page, which is behind many.
    own = sum(1 for count in Counter(frames(guest)).values() if count == 1)
    after = process_memory(ROOT, guest.pid())
    pairs = (
        ("looked at", own * PAGE_SIZE, found.vms[0].looked),
        ("present", present, len(frames(guest))),
        ("resident", before.rss, after.rss),
        ("swapped", before.swap, after.swap),
    )
    return [one for one in pairs if one[1] != one[2]]


def test_sampling_leaves_the_footprint_as_it_was(guests: dict[str, Guest]) -> None:
    """Half of the guest is swapped out and its processors stand still: every page that moved would be the sampler's.

    Or that of the kernel's own khugepaged, which comes every ten seconds: the sampler would leave traces each time.
    """
    guest = guests["a"]
    guest.alloc("data", 64 * MIB)
    guest.domain().suspend()
    try:
        found = [traces(guest)]
        while found[-1] and len(found) < 3:
            found.append(traces(guest))
        assert not found[-1], found
    finally:
        guest.domain().resume()
    guest.wait_agent(60.0)
    guest.free("data")


def test_a_page_that_is_read_though_it_is_swapped_out_would_be_seen(guests: dict[str, Guest]) -> None:
    """The test above can fail."""
    guest = guests["b"]
    guest.alloc("data", 32 * MIB)
    guest.domain().suspend()
    try:
        page_out(guest)
        before = process_memory(ROOT, guest.pid())
        with GuestPages(ROOT, guest.pid(), seed=0) as pages:
            span = max(guest_ram(ROOT, guest.pid()), key=lambda one: one.end - one.start)
            for at in range(512):
                pages._read(span.start + at * PAGE_SIZE, 1)
        assert process_memory(ROOT, guest.pid()).swap < before.swap
    finally:
        guest.domain().resume()
    guest.free("data")


AUTO = {
    "virt": {"allow_monitor_commands": True},
    "dedup": {
        "advisor": "none",
        "pages_to_scan": 20000,
        "sleep_millisecs": 10,
        "estimate_cpu_percent": 20,
        "estimate_settle": 0.5,
        "estimate_interval": 1,
        "auto_least_mib": 32,
        "auto_enter_percent": 40,  # guests of one image have much in common anyway
        "auto_exit_percent": 25,
    },
}


def hold(guests: dict[str, Guest], name: str, content: str) -> None:
    """Every guest lets go of what it held, and holds this."""
    let_go(guests)
    for guest in guests.values():
        guest.alloc(name, DATA, content)


def test_auto_begins_where_it_pays_and_ends_where_it_does_not(guests: dict[str, Guest]) -> None:
    hold(guests, "own", "random")
    with AgentProcess(guests["a"].host, AUTO) as agent:
        for name in NAMES:
            agent.memhint("set", name, "dedup=auto", "--no-wait")

        def verdict(name: str):
            return lever_of(named(agent.report())[name], LeverName.DEDUP).verdict

        wait_for(lambda: verdict("a").reason is Reason.DOES_NOT_PAY, 60.0, "an estimate that says no")
        assert read_knob(ROOT, KsmKnob.RUN) == "0"
        assert "leave" in agent.memhint("dedup", "estimate").stdout
        hold(guests, "common", "seed:7")
        wait_for(lambda: read_knob(ROOT, KsmKnob.RUN) == "1", 60.0, "KSM to be switched on")
        wait_for(lambda: merged(guests) >= 0.9 * 2 * DATA, 90.0, "the pages to merge")
        # The estimate goes on while KSM does: what it says now is of pages that were looked at some seconds ago.
        wait_for(lambda: "merge:" in agent.memhint("dedup", "estimate", "a").stdout, 60.0, "the estimate to say yes")
        assert agent.process is not None
        agent.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "configuration reloaded" in agent.log.read_text(), 60.0, "the reload")
        agent.report()
        # what was looked at is not lost
        assert "merge:" in agent.memhint("dedup", "estimate", "a").stdout
        # What the agent remembers counts for three periods, which a stalled machine may be away for.
        wait_for(
            lambda: "the estimate says that it pays" in agent.memhint("plan", "--dry-run").stdout, 60.0, "the same plan"
        )
        wait_verdict(agent, "a", LeverName.DEDUP, {Answer.APPLIED, Answer.UNCHANGED})
        hold(guests, "own", "random")
        wait_for(lambda: read_knob(ROOT, KsmKnob.RUN) == "0", 90.0, "KSM to be switched off")
        wait_for(lambda: verdict("a").reason is Reason.DOES_NOT_PAY, 60.0, "the verdict to say why")
        for name in NAMES:
            agent.memhint("set", name, "dedup=inherit", "--no-wait")


def test_now_needs_no_agent(guests: dict[str, Guest]) -> None:
    agent = AgentProcess(guests["a"].host, AUTO)
    agent.configure(AUTO)
    shown = agent.memhint("dedup", "estimate", "--now", "-f", "json", check=True)
    assert '"waiting": []' in shown.stdout
    assert all(f'"name": "{name}"' in shown.stdout for name in NAMES)
