"""KSM of the kernel for hosts with several threads: what they cost, and what they are good for at most.

Run with kernel/tests/run --series host. Costs are in instructions, as in test_host_ksm.py. The selftest ksm_threads,
which verifies contents under writes, moves, advice and forks, runs with those of the series in test_host.py.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, ClassVar

from test_host import HostCase
from test_host_ksm import KSM, KsmCase

from lab.kernel_guest import PAGES_PER_MIB

TRACING = "/sys/kernel/tracing"
# Of what one thread executes: a page of a batch is come to twice. 1.05 where nothing merges, 1.09 where much does.
DEARER = 1.15
# Of what ksmd does with pages that do not merge, what threads can share: 0.81 in a first scan, 0.85 in a second.
# A kernel that checks itself checks most where pages are looked for: what that costs says nothing.
SHARED = 0.0 if os.environ.get("MEMHINT_DEBUG") else 0.75


class ThreadsCase(KsmCase):
    """Processes of equal content, or one of pages that are like no other."""

    pause = 10_000
    """Between two looks at ksmd, in microseconds."""

    def begin(self, threads: int, processes: int, mib: int) -> None:
        """Have the memory there, with ksmd stopped, and let one batch of ksmd be a full scan."""
        pages = 2 * processes * mib * PAGES_PER_MIB
        self.set(run=2, pages_to_scan=pages, smart_scan=0, use_zero_pages=0, run_threads=threads)
        for at in range(processes):
            self.guest.run(f"memory merge 0 {mib} > /tmp/held{at} & echo $! > /tmp/holder{at}")
        for at in range(processes):
            held = f"grep -q held /tmp/held{at}"
            self.guest.wait_until(lambda held=held: self.guest.try_run(held)[0] == 0, "the memory to be there")

    def scan(self) -> None:
        """One full scan: ksmd then sleeps until somebody changes for how long."""
        now, long = (self.counter(name) for name in ("full_scans", "sleep_millisecs"))
        scanned = f"[ $(cat {KSM}/full_scans) -gt {now} ]"
        self.set(sleep_millisecs=10**6 + (long + 1) % 2)
        self.guest.run(f"echo 1 > {KSM}/run; until {scanned}; do usleep {self.pause}; done; echo 0 > {KSM}/run")

    def end(self, processes: int) -> None:
        """Free the memory."""
        holders = " ".join(f"$(cat /tmp/holder{at})" for at in range(processes))
        self.guest.run(f"echo 2 > {KSM}/run; kill {holders}; wait; rm -f /tmp/held* /tmp/holder*")

    def counter(self, name: str) -> int:
        """A file of KSM."""
        return int(self.guest.run(f"cat {KSM}/{name}"))

    def used(self) -> int:
        """What ksmd and its threads have used of the processor."""
        files = "$(grep -l ^ksmd /proc/[0-9]*/comm | sed s/comm/schedstat/)"
        return sum(int(line.split()[0]) for line in self.guest.run(f"cat {files}").splitlines())


class ThreadsCostTest(ThreadsCase):
    """On one processor, where threads gain nothing, and the clock counts instructions."""

    options: ClassVar[dict[str, Any]] = {"mib": 512, "cpus": 1, "words": ("-icount", "shift=0,sleep=off")}
    pause = 1_000_000  # nobody else is to run while ksmd does; what is left of that is skipped

    def cost(self, threads: int, processes: int, mib: int, scans: int) -> float:
        """Instructions of all threads per page and scan."""
        self.begin(threads, processes, mib)
        before, scanned = self.used(), self.counter("pages_scanned")
        for _ in range(scans):
            self.scan()
        cost = (self.used() - before) / (self.counter("pages_scanned") - scanned)
        assert self.counter("pages_sharing") == (processes - 1) * mib * PAGES_PER_MIB
        self.end(processes)
        return cost

    def test_two_threads_execute_hardly_more_than_one(self) -> None:
        for what, processes, mib in (("pages like no other", 1, 48), ("three times the same pages", 3, 24)):
            one, two, four = (self.cost(threads, processes, mib, 2) for threads in (1, 2, 4))
            print(f"{what}, two scans: {one:.0f} instructions per page, 2 threads {two:.0f}, 4 threads {four:.0f}")
            assert max(two, four) <= DEARER * one

    def test_what_threads_can_share(self) -> None:
        """The rest bounds what any number of them is good for."""
        event = f"{TRACING}/events/ksm/ksm_batch/enable"
        self.guest.run(f"mount -t tracefs tracefs {TRACING} 2> /dev/null; echo 1 > {event}")
        for what, processes, mib, least in (("pages like no other", 1, 48, SHARED), ("merging", 3, 24, 0.0)):
            self.begin(2, processes, mib)
            for scan in ("first", "second"):
                self.guest.run(f"echo > {TRACING}/trace")
                self.scan()
                gather, look, merge = parts(self.guest.run(f"grep ksm_batch: {TRACING}/trace"))
                share = look / (gather + look + merge)
                bounds = ", ".join(f"{1 / (1 - share + share / threads):.2f} with {threads}" for threads in (2, 4, 64))
                print(
                    f"{what}, {scan} scan: gather {gather:.0f}, look {look:.0f}, merge {merge:.0f} instructions per"
                    f" page; {share:.2f} can be shared: at most so many times as fast: {bounds}"
                )
                assert share >= least
            self.end(processes)
        self.guest.run(f"echo 0 > {event}")


class ThreadsTest(ThreadsCase):
    """On two processors."""

    options: ClassVar[dict[str, Any]] = {"mib": 1024, "cpus": 2}

    def test_threads_merge_what_one_does(self) -> None:
        """The times are printed only: the machine has other work, and emulates two processors by as many threads."""
        seconds: dict[int, list[float]] = {1: [], 2: [], 4: []}
        for threads in (1, 2, 4, 4, 2, 1):
            self.begin(threads, 3, 48)
            helped = self.counter("pages_by_threads")
            began = time.monotonic()
            self.scan()
            self.scan()
            seconds[threads].append(time.monotonic() - began)
            helped = self.counter("pages_by_threads") - helped
            assert self.counter("pages_sharing") == 2 * self.counter("pages_shared") == 2 * 48 * PAGES_PER_MIB
            assert (helped > 0) == (threads > 1)
            self.end(3)
        best = {threads: min(all_) for threads, all_ in seconds.items()}
        told = ", ".join(f"{threads}: {best[threads]:.2f} s ({best[1] / best[threads]:.2f})" for threads in best)
        print(f"two scans that merge 96 of 144 MiB, by threads, the better of two runs: {told}")

    def test_threads_begin_and_end(self) -> None:
        for threads in (3, 64, 2, 1):
            self.set(run_threads=threads)
            names = self.guest.run("cat $(grep -l ^ksmd /proc/[0-9]*/comm)").split()
            assert sorted(names) == sorted(["ksmd", *(f"ksmd/{at}" for at in range(1, threads))])
        assert self.guest.run("for one in $(grep -l ^ksmd/ /proc/[0-9]*/comm); do echo $one; done; true") == ""

    def test_threads_have_the_priority_of_ksmd(self) -> None:
        self.set(run_threads=4)
        nice = "cut -d' ' -f19 $(grep -l ^ksmd /proc/[0-9]*/comm | sed s/comm/stat/)"
        assert set(self.guest.run(nice).split()) == {"5"}
        self.set(run_threads=1)


class OfflineTest(HostCase):
    """Half of each node can be taken offline: what programs use lies there first."""

    arguments = "movablecore=512M"

    def test_memory_goes_offline_while_threads_look_at_it(self) -> None:
        self.guest.run("(ksm_threads -d -t 20 > /tmp/said 2>&1; echo $? > /tmp/ended) & true")
        # It has kept the settings by then: while memory goes offline, KSM says that it runs in a way nobody can write.
        self.guest.wait_until(lambda: self.guest.run("cat /sys/kernel/mm/ksm/run") != "0", "the program to begin")
        blocks = "/sys/devices/system/node/node[01]/memory[0-9]*"
        off = f"for one in {blocks}; do echo offline > $one/state; done 2> /dev/null"
        gone = f"grep -l offline {blocks}/state | wc -l"
        back = f"for one in {blocks}; do echo online > $one/state; done 2> /dev/null; true"
        most = rounds = 0
        while self.guest.try_run("[ -s /tmp/ended ]")[0]:
            most = max(most, int(self.guest.run(f"{off}; {gone}")))
            self.guest.run(back)
            rounds += 1
        said = self.guest.run("cat /tmp/said")
        print(f"{said}\n{rounds} times, up to {most} blocks")
        assert self.guest.run("cat /tmp/ended") == "0", said
        assert most > 0


def parts(trace: str) -> tuple[float, float, float]:
    """What batches took to be gathered, looked at and merged, per page, by the machine's clock."""
    fields = [re.findall(r" (\d+)\b", line.partition("ksm_batch:")[2]) for line in trace.splitlines()]
    pages, _, gather, look, merge = (sum(map(int, column)) for column in zip(*fields, strict=True))
    return gather / pages, look / pages, merge / pages
