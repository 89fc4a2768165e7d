"""Moving memory between nodes with the series for hosts: threads that copy, and an exchange.

The selftests, which verify the contents of all kinds of memory, run with those of the series in test_host.py.
"""

from __future__ import annotations

import re

from test_host import MIB, HostCase

TRACING = "/sys/kernel/tracing"
THREADS = "/sys/module/migrate_copy/parameters/threads"
BATCH = "/sys/module/migrate/parameters/batch_pages"
WORKQUEUE = "/sys/devices/virtual/workqueue/migrate_copy"
MOVED = 2 * 10 * 32 * MIB // 4096  # pages that the selftest moves to tell the speed: small ones, and huge ones


class MigrationCase(HostCase):
    """With the threads and the batch of a kernel that was not told anything."""

    def setUp(self) -> None:
        self.guest.run(f"echo 1 > {THREADS}; echo 512 > {BATCH}; rm -f /tmp/held")

    def traced(self, line: str, *events: str) -> str:
        """What was traced of the events while a line of the shell ran."""
        paths = [f"{TRACING}/events/migrate/{event}/enable" for event in events]
        self.guest.run(f"echo > {TRACING}/trace; for one in {' '.join(paths)}; do echo 1 > $one; done")
        print(self.guest.run(line))
        self.guest.run(f"for one in {' '.join(paths)}; do echo 0 > $one; done")
        return self.guest.run(f"cat {TRACING}/trace")


def added(trace: str, field: str) -> int:
    """The sum of a field of all events."""
    return sum(map(int, re.findall(rf"\b{field}=(\d+)", trace)))


class CopyTest(MigrationCase):
    """Threads that copy."""

    def test_one_thread_copies_as_before(self) -> None:
        trace = self.traced("migrate_copy speed 1", "mm_migrate_copy_begin", "mm_migrate_copy_end")
        assert "mm_migrate_copy" not in trace

    def test_threads_copy_everything_once(self) -> None:
        trace = self.traced("migrate_copy speed 2", "mm_migrate_copy_begin", "mm_migrate_copy_end")
        assert added(trace, "nr_pages") == added(trace, "nr_copied") == MOVED
        assert 0 < added(trace, "by_workers") < MOVED
        assert added(trace, "failed") == 0
        assert set(re.findall(r"threads=(\d+)", trace)) == {"2"}
        # a batch is a huge page, and so are 512 small ones
        assert trace.count("mm_migrate_copy_end") == MOVED // 512

    def test_a_batch_can_hold_more_than_one_huge_page(self) -> None:
        self.guest.run(f"echo 8192 > {BATCH}")
        trace = self.traced("migrate_copy speed 2", "mm_migrate_copy_begin", "mm_migrate_copy_end")
        assert trace.count("mm_migrate_copy_end") == MOVED // 8192
        assert added(trace, "nr_copied") == MOVED

    def test_the_administrator_says_where(self) -> None:
        self.guest.run(f"echo 1 > {WORKQUEUE}/cpumask")
        try:
            assert int(self.guest.run(f"cat {WORKQUEUE}/cpumask"), 16) == 1
        finally:
            self.guest.run(f"echo 3 > {WORKQUEUE}/cpumask")

    def test_two_threads_and_one(self) -> None:
        for threads in (1, 2):
            print(self.guest.run(f"migrate_copy speed {threads}"))


class OfflineTest(MigrationCase):
    """Half of each node can be taken offline: what programs use lies there first."""

    arguments = "movablecore=512M"

    def test_memory_that_is_taken_offline_keeps_its_content(self) -> None:
        self.guest.run(f"echo 4 > {THREADS}; echo 4096 > {BATCH}; touch /tmp/held /tmp/said")
        self.guest.run("(migrate_copy hold /tmp/held > /tmp/said 2>&1; echo $? > /tmp/ended) & true")
        self.guest.wait_until(lambda: self.guest.run("cat /tmp/said").endswith("held"), "memory to be held", 60)
        before = self.guest.counter("pgmigrate_success")
        blocks = "/sys/devices/system/node/node1/memory[0-9]*"
        line = f"for one in {blocks}; do echo offline > $one/state; done 2> /dev/null; true"
        trace = self.traced(line, "mm_migrate_copy_end")
        gone = self.guest.run(f"grep -l offline {blocks}/state | wc -l")
        self.guest.run(f"for one in {blocks}; do echo online > $one/state; done 2> /dev/null; true")
        self.guest.run("rm /tmp/held")
        self.guest.wait_until(lambda: self.guest.try_run("[ -s /tmp/ended ]")[0] == 0, "the look at the memory", 60)
        assert self.guest.run("cat /tmp/ended") == "0", self.guest.run("cat /tmp/said")
        assert int(gone) > 0
        assert self.guest.counter("pgmigrate_success") > before
        assert added(trace, "nr_copied") > 0


class BootTest(HostCase):
    """Parameters of the command line."""

    arguments = "migrate_copy.threads=3 migrate.batch_pages=4096"

    def test_parameters(self) -> None:
        assert self.guest.run(f"cat {THREADS} {BATCH}").split() == ["3", "4096"]


class ExchangeTest(MigrationCase):
    """Folios that change places."""

    def test_an_exchange_takes_no_more_than_a_batch_of_room(self) -> None:
        trace = self.traced("exchange_pages speed", "mm_exchange_folios")
        spare = {order: max(map(int, found)) for order, found in spares(trace).items()}
        assert spare == {0: 512, 9: 1}
        assert added(trace, "nr_pairs") == added(trace, "nr_exchanged") > 0


def spares(trace: str) -> dict[int, list[str]]:
    """Folios that were free for each exchange, by their order."""
    found: dict[int, list[str]] = {}
    for order, spare in re.findall(r"order=(\d+) .*nr_spare=(\d+)", trace):
        found.setdefault(int(order), []).append(spare)
    return found
