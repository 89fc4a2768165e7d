"""What the series promises on arm64: the counters are exact, with pages of 4 KiB and of 64 KiB.

With 64 KiB the largest block has 512 MiB, so the balloon asks for blocks of 2 MiB. Run with
`kernel/tests/run --arch arm64`.
"""

from __future__ import annotations

import re

from test_guest import GuestCase

from lab.kernel_guest import MIB, manifest

PAGE = int(manifest()["pages"].removesuffix("k")) * 1024
ORDER = {4096: 9, 65536: 5}[PAGE]
USED = 768
# What the guest's kernel and QEMU use for themselves while the test runs.
SLACK = 160


class Arm64Test(GuestCase):
    """One guest, as the tests of the series have it."""

    def setUp(self) -> None:
        self.guest.set(page_reporting_delay_ms=100, enabled=1)

    def test_a_page_has_the_size_asked_for(self) -> None:
        said = self.guest.run("grep -m1 KernelPageSize /proc/self/smaps")
        assert re.search(r"(\d+) kB", said)[1] == str(PAGE // 1024)

    def test_kselftest(self) -> None:
        status, output = self.guest.try_run("page_reporting")
        assert status == 0, output
        assert "not ok" not in output

    def test_blocks_of_2_mib_are_reported(self) -> None:
        assert self.guest.get("page_reporting_order") == str(ORDER)
        assert PAGE << ORDER == 2 * MIB

    def test_the_counter_is_what_a_walk_finds(self) -> None:
        self.guest.pause_drained()
        idle = self.exact()
        assert idle * PAGE > 1024 * MIB
        zones = self.guest.run("grep nr_free_reported /proc/zoneinfo").split()[1::2]
        assert sum(map(int, zones)) == idle
        self.guest.hold(USED)
        assert self.exact() * PAGE < idle * PAGE - (USED - SLACK) * MIB
        self.guest.release()
        self.guest.set(enabled=1)
        self.guest.pause_drained()
        assert self.exact() * PAGE > idle * PAGE - SLACK * MIB

    def test_off_keeps_and_on_gives_back(self) -> None:
        self.guest.pause_drained()
        empty = self.guest.resident_mib()
        self.guest.hold(USED)
        full = self.guest.resident_mib()
        assert full > empty + USED - SLACK
        self.guest.release()
        reported = self.guest.counter("page_report_pages")
        assert self.guest.unreported() * PAGE > (USED - SLACK) * MIB
        assert self.guest.counter("page_report_pages") == reported
        self.guest.set(enabled=1)
        self.guest.wait_until(lambda: self.guest.resident_mib() < empty + SLACK, "the host to have it back")
        self.guest.pause()
        self.exact()
