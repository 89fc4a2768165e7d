"""What the patches promise, asserted in a running guest and, for the memory itself, on the host.

Run with kernel/tests/run, which builds the kernel and names it in MEMHINT_KERNEL.
"""

from __future__ import annotations

import re
import time
import unittest
from collections.abc import Callable
from typing import Any, ClassVar

from case import KernelCase

from lab.kernel_guest import MIB, PAGES_PER_MIB, PARAMETERS, Guest, GuestError, image_folder, manifest

NEVER = 2**31 - 1
USED = 1024
# What the guest's kernel and QEMU use for themselves while the test runs.
SLACK = 160


class GuestCase(KernelCase):
    """One guest for all tests of a class; each begins with reporting on, the default delay, and nothing held."""

    arguments = ""
    options: ClassVar[dict[str, Any]] = {}
    kernel = "MEMHINT_KERNEL"

    @classmethod
    def boot(cls) -> Guest:
        return Guest(image_folder(cls.kernel), arguments=cls.arguments, **cls.options)

    def exact(self) -> int:
        """Assert that the counter equals the walk, on a guest that does nothing else, and return it."""

        counted, walked = self.beside(self.guest.walked)
        assert counted == walked
        return counted

    def beside(self, count: Callable[[], int]) -> tuple[int, int]:
        """The counter, and what `count` gives of a moment in which nothing was reported and nothing left."""

        def seen() -> tuple[int, int]:
            now = self.guest.vmstat()
            return now["nr_free_reported"], now["page_report_pages"]

        def both() -> tuple[int, int] | None:
            before, counted = seen(), count()
            return (before[0], counted) if seen() == before else None

        return self.guest.wait_until(both, "the counter to stand still")

    def flush(self, pages: int) -> int:
        """Flush, wait for its end, and return what it reported."""
        before = self.guest.counter("page_report_pages")
        self.guest.set(flush_pages=pages)
        self.guest.wait_until(lambda: self.guest.get("flush_pages") == "0", "the flush to end")
        return self.guest.counter("page_report_pages") - before


class FreeListTest(GuestCase):
    """The walk of the free lists, with what the series adds to it."""

    def setUp(self) -> None:
        self.guest.set(page_reporting_delay_ms=2000, enabled=1)

    def test_kselftest(self) -> None:
        status, output = self.guest.try_run("page_reporting")
        assert status == 0, output
        assert "not ok" not in output

    def test_idle(self) -> None:
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.drained()
        assert self.exact() > USED * PAGES_PER_MIB

        def zones() -> int:
            return sum(int(word) for word in self.guest.run("grep nr_free_reported /proc/zoneinfo").split()[1::2])

        counted, added = self.beside(zones)
        assert added == counted

    def test_stopped_halfway(self) -> None:
        self.guest.set(page_reporting_delay_ms=NEVER)
        self.guest.hold(USED)
        self.guest.release()
        batches = self.guest.counter("page_report_batch")
        self.guest.set(page_reporting_delay_ms=1000)
        # The guest itself stops it: if we are put off for some seconds there is nothing left to report.
        seen = f"set -- $(grep page_report_batch /proc/vmstat); [ $2 -gt {batches} ] && break"
        self.guest.run(f"for _ in $(seq 10000); do {seen}; done; echo 0 > {PARAMETERS}/enabled")
        assert self.guest.counter("page_report_batch") > batches
        self.exact()
        assert self.guest.unreported() > 0
        self.guest.set(page_reporting_delay_ms=100, enabled=1)
        self.guest.drained()
        self.exact()

    def test_reallocation(self) -> None:
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.pause_drained()
        idle = self.exact()
        self.guest.hold(USED)
        assert self.exact() < idle - (USED - SLACK) * PAGES_PER_MIB
        self.guest.release()
        self.exact()

    def test_off_then_on(self) -> None:
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.pause_drained()
        assert self.guest.get("enabled") == "N"
        batches = self.guest.counter("page_report_batch")
        self.guest.hold(USED)
        used = self.guest.resident_mib()
        self.guest.release()
        uptime = float(self.guest.run("cut -d' ' -f1 /proc/uptime"))
        # the absence of events needs time to pass: twenty delays of the guest's own clock
        self.guest.wait_until(lambda: float(self.guest.run("cut -d' ' -f1 /proc/uptime")) > uptime + 2, "twenty delays")
        assert self.guest.counter("page_report_batch") == batches
        assert self.guest.unreported() > (USED - SLACK) * PAGES_PER_MIB
        assert self.guest.resident_mib() > used - SLACK

        # nothing is freed from here on: resuming alone starts the pass
        self.guest.set(enabled=1)
        self.guest.drained()
        self.guest.wait_until(
            lambda: self.guest.resident_mib() < used - USED + SLACK, "the host to get the memory back"
        )
        self.exact()

    def drain_seconds(self, delay_ms: int) -> float:
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.drained()
        self.guest.set(page_reporting_delay_ms=delay_ms)
        self.guest.hold(USED)
        target = self.guest.resident_mib() - USED * 9 // 10
        started = time.monotonic()
        self.guest.release()
        self.guest.wait_until(lambda: self.guest.resident_mib() < target, "the host to get 90 % back")
        return time.monotonic() - started

    def test_delay(self) -> None:
        slow, fast = self.drain_seconds(2000), self.drain_seconds(200)
        for _ in range(4):
            if fast < slow / 2:
                break
            fast = self.drain_seconds(200)  # a machine that is busy with something else can only make it longer
        print(f"90 % of {USED} MiB back on the host: {slow:.1f} s at 2000 ms, {fast:.1f} s at 200 ms", flush=True)
        assert fast < slow / 2

    def test_no_delay(self) -> None:
        """Memory is freed with the zone lock held: it is a timer that queues a pass, also without a delay."""
        tracing = "/sys/kernel/tracing"
        event = f"{tracing}/events/workqueue/workqueue_queue_work/enable"
        found = [line.split() for line in (image_folder() / "System.map").read_text().splitlines()]
        # by name where the kernel knows names, as one for debugging does
        name = "page_reporting_process"
        (address,) = [f"{int(row[0], 16):016x}" for row in found if row[2] == name]
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.drained()
        self.guest.set(page_reporting_delay_ms=0)
        self.guest.run(f"echo 1 > {event}; echo > {tracing}/trace")
        self.guest.hold(USED)
        self.guest.release()
        self.guest.drained()
        self.guest.run(f"echo 0 > {event}")
        trace = self.guest.run(f"cat {tracing}/trace").splitlines()
        queued = [line for line in trace if address in line or f"function={name}" in line]
        assert queued
        # the third character of the flags says in which kind of interrupt this was
        flags = {match[1] for line in queued if (match := re.search(r"\[\d+\] (\S+)", line))}
        assert {word[2] for word in flags} <= {"s", "h", "H"}, "\n".join(queued[:5])

    def test_refused(self) -> None:
        # Where the parameter is the kernel's own, what is too long for a timer is taken, and means never.
        too_long = () if manifest()["source"].startswith("linux-source-7.") else ("2147483648",)
        for name, values in {
            "page_reporting_order": ("99", "-1", "x"),
            "page_reporting_delay_ms": ("-1", *too_long, "x"),
            "enabled": ("2", "x"),
            "flush_pages": ("0", "-1", "x", "99999999999999999999999"),
        }.items():
            before = self.guest.get(name)
            for value in values:
                with self.subTest(name=name, value=value):
                    status, output = self.guest.try_run(f"echo {value} > {PARAMETERS}/{name}")
                    assert status != 0
                    assert "Invalid argument" in output
                    assert self.guest.get(name) == before

    def test_flush(self) -> None:
        # What was not reported before and is not resident would be flushed too, and the host get nothing for it.
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.pause_drained()
        self.guest.set(page_reporting_delay_ms=NEVER, enabled=1)
        self.guest.hold(USED)
        used = self.guest.resident_mib()
        self.guest.release()
        asked = 128 * PAGES_PER_MIB
        got = self.flush(asked)
        assert got >= asked
        assert got < asked + 1024
        self.guest.wait_until(
            lambda: self.guest.resident_mib() < used - 128 + 16, "the host to get the flushed memory back"
        )
        assert self.guest.resident_mib() > used - 128 - SLACK
        # the shell in the guest may free a block between a flush and the look
        self.guest.wait_until(
            lambda: self.flush(NEVER) >= 0 and self.guest.unreported() <= 0, "a flush to report everything"
        )
        self.exact()

    def test_flush_drains_what_cpus_keep(self) -> None:
        def kept() -> int:
            """Free pages on the lists of CPUs."""
            return sum(map(int, re.findall(r"\d+", self.guest.run("grep -w count: /proc/zoneinfo"))))

        def keep() -> bool:
            """Have CPUs keep much. A kernel takes it from them again with time, on a slow machine before the look."""
            nonlocal before
            self.guest.hold(USED)
            self.guest.release()
            before = kept()
            return before > 4 * PAGES_PER_MIB

        before = 0
        self.guest.set(page_reporting_delay_ms=NEVER)
        self.guest.wait_until(keep, "CPUs to keep free pages")
        # what the shell in the guest frees between a flush and the look goes there again
        self.guest.wait_until(
            lambda: self.flush(NEVER) >= 0 and kept() < before // 4, "a flush to drain the lists of CPUs"
        )

    def test_flush_ends_although_others_free(self) -> None:
        """A guest that frees as fast as a flush reports does not keep it going."""
        self.guest.set(page_reporting_delay_ms=NEVER)
        # not in step with each other, so that there is hardly a moment in which nothing is free
        self.guest.run("for mib in 64 96 160; do memory churn $mib & echo $! >> /tmp/churn; done > /dev/null")
        try:
            before = self.guest.counter("page_report_batch")
            for _ in range(3):
                self.flush(NEVER)
            assert self.guest.counter("page_report_batch") > before
        finally:
            self.guest.run("kill $(cat /tmp/churn); wait; rm /tmp/churn")

    def test_flush_refused(self) -> None:
        self.guest.set(enabled=0)
        status, output = self.guest.try_run(f"echo 512 > {PARAMETERS}/flush_pages")
        assert status != 0
        assert "Operation not permitted" in output

    def test_tracepoints(self) -> None:
        tracing = "/sys/kernel/tracing"
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.pause()  # so that no pass is traced in part
        self.guest.run(f"echo 1 > {tracing}/events/page_reporting/enable; echo > {tracing}/trace")
        self.guest.set(enabled=1)
        self.guest.hold(USED)
        self.guest.release()
        self.guest.drained()
        self.guest.pause()
        self.guest.run(f"echo 0 > {tracing}/events/page_reporting/enable")
        trace = self.guest.run(f"cat {tracing}/trace")
        for event in ("pass_begin: order=9", "batch: node=0 zone=", "pass_end: nr_pages="):
            assert f"mm_page_reporting_{event}" in trace
        batches = sum(int(nr) for nr in re.findall(r"batch: .* nr_pages=(\d+) err=0", trace))
        passes = sum(int(nr) for nr in re.findall(r"pass_end: nr_pages=(\d+) err=0", trace))
        assert batches == passes

    def test_order(self) -> None:
        assert self.guest.get("page_reporting_order") == "9"
        self.guest.set(page_reporting_delay_ms=100, page_reporting_order=3)
        self.flush(NEVER)
        self.guest.drained()
        self.guest.set(page_reporting_order=9)

    def test_driver_unbound(self) -> None:
        driver = "/sys/bus/virtio/drivers/virtio_balloon"
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.drained()
        device = self.guest.run(f"cd {driver}; ls -d virtio*; cd /")
        self.guest.run(f"echo {device} > {driver}/unbind")
        self.exact()
        status, output = self.guest.try_run(f"echo 512 > {PARAMETERS}/flush_pages")
        assert status != 0
        assert "No such device" in output
        self.guest.hold(64)
        self.guest.release()
        self.guest.run(f"echo {device} > {driver}/bind")
        self.guest.drained()
        self.exact()

    def test_a_line_is_read_whole_though_a_job_ends_meanwhile(self) -> None:
        line = "echo of two halves"
        self.guest.run("(usleep 300000; echo the job ends > /dev/console) & true")
        self.guest.shell.socket.sendall(line[:7].encode())
        self.guest.wait_until(
            lambda: "the job ends" in self.guest.console.read_text(errors="replace"), "the job to end"
        )
        assert self.guest.try_run(line, sent=7) == (0, "of two halves")


class FirstPassTest(GuestCase):
    """A balloon that appears while the guest allocates, with a kernel that takes its time to enable the static key."""

    kernel = "MEMHINT_KERNEL_SLOW_KEY"
    arguments = "page_reporting.page_reporting_delay_ms=0"
    # this machine type takes a balloon at run time
    options: ClassVar[dict[str, Any]] = {"balloon": False, "machine": "pc"}

    def test_key_before_first_pass(self) -> None:
        use = "dd if=/dev/zero of=/tmp/used bs=1M count=300 2> /dev/null; rm /tmp/used"
        self.guest.qmp("device_add", driver="virtio-balloon-pci", id="balloon0", **{"free-page-reporting": True})
        self.guest.run("(echo 1 > /sys/bus/pci/rescan; touch /tmp/found) &")
        # ACPI gives up on the interrupt of a device after half a minute, which a kernel for debugging may need
        self.guest.run("until [ -e /tmp/found ] || dmesg | grep -qi 'enabled at irq'; do sleep 0.1; done")
        # taken and freed until the driver has registered: what a pass reported too early leaves the free lists again
        self.guest.run(f"while [ ! -e /tmp/found ]; do {use}; done")
        assert "Free page reporting enabled" in self.guest.run("dmesg")
        self.guest.drained()
        self.guest.pause()
        self.exact()


class StalledCase(GuestCase):
    """A host that does not answer: the balloon may not reach memory, so that a batch in its hands stays there."""

    # the flag of the PCI command register that lets a device reach memory
    MASTER = 4
    TRACING = "/sys/kernel/tracing"

    def stall(self, stalled: bool) -> None:
        """Let the balloon reach memory, or not; what it missed meanwhile it is told again."""
        link = "/sys/bus/virtio/drivers/virtio_balloon/virtio*"
        device = "/sys/bus/pci/devices/" + self.guest.run(f"basename $(dirname $(readlink -f {link}))")
        now = int(self.guest.run(f"od -A n -t u1 -j 4 -N 1 {device}/config"))
        byte = now & ~self.MASTER if stalled else now | self.MASTER
        self.guest.run(f"printf '\\{byte:03o}' | dd of={device}/config bs=1 seek=4 conv=notrunc 2> /dev/null")
        if not stalled:
            self.guest.run(f"memory kick {device}/resource4")

    def trace(self) -> str:
        """What page reporting did since it was traced."""
        return self.guest.run(f"cat {self.TRACING}/trace")

    def trace_on(self) -> None:
        """Begin to trace."""
        self.guest.run(f"echo 1 > {self.TRACING}/events/page_reporting/enable; echo > {self.TRACING}/trace")


class StalledHostTest(StalledCase):
    """Nobody waits for the host, who may take any time."""

    arguments = "page_reporting.page_reporting_delay_ms=100"

    def in_time(self, line: str) -> bool:
        """Whether a line of the shell ends although a batch does not."""
        self.guest.run(f"rm -f /tmp/ended; {{ {line}; echo ended > /tmp/ended; }} > /tmp/said 2>&1 &")
        try:
            self.guest.wait_until(lambda: self.guest.try_run("[ -s /tmp/ended ]")[0] == 0, f"{line} to end", 20)
        except GuestError:
            return False
        return True

    def test_nobody_waits_for_the_host(self) -> None:
        self.guest.drained()
        self.guest.pause()
        self.trace_on()
        self.stall(True)
        self.guest.hold(USED)
        self.guest.release()
        self.guest.set(enabled=1)
        self.guest.wait_until(lambda: "pass_begin" in self.trace(), "a pass to begin")
        assert "batch:" not in self.trace()
        assert self.in_time(f"echo 0 > {PARAMETERS}/enabled")
        assert self.guest.get("enabled") == "N"
        assert self.in_time(f"echo 1 > {PARAMETERS}/enabled; echo 512 > {PARAMETERS}/flush_pages")
        assert self.in_time(f"echo 200 > {PARAMETERS}/page_reporting_delay_ms")
        # taking the driver away has to wait, and nobody for that
        assert self.guest.get("flush_pages") != "0"
        self.guest.run("(cd /sys/bus/virtio/drivers/virtio_balloon; echo virtio* > unbind) &")
        self.guest.wait_until(lambda: self.guest.get("flush_pages") == "0", "the device to be gone for all others")
        assert self.in_time(f"echo 0 > {PARAMETERS}/enabled; echo 300 > {PARAMETERS}/page_reporting_delay_ms")
        assert self.guest.get("enabled") == "N"
        assert "pass_end" not in self.trace()


class ShortOfMemoryTest(StalledCase):
    """Memory runs short during a flush, between one batch and the next."""

    arguments = f"page_reporting.enabled=0 page_reporting.page_reporting_delay_ms={NEVER}"

    def test_watermark_per_batch(self) -> None:
        free = int(self.guest.run("grep MemFree: /proc/meminfo").split()[1]) // 1024
        self.guest.hold(free - 540)
        self.guest.set(enabled=1)
        self.trace_on()
        self.stall(True)
        self.guest.set(flush_pages=USED * PAGES_PER_MIB)
        self.guest.wait_until(lambda: "pass_begin" in self.trace(), "the flush to begin")
        # What is free now is less than the low watermark, and more than the one below which no block is isolated.
        self.guest.run("echo 400000 > /proc/sys/vm/min_free_kbytes; echo 1000 > /proc/sys/vm/watermark_scale_factor")
        self.stall(False)
        self.guest.wait_until(lambda: self.guest.get("flush_pages") == "0", "the flush to end")
        assert self.trace().count("mm_page_reporting_batch:") == 1
        self.exact()


class LittleMemoryTest(GuestCase):
    """A guest that has little free memory left."""

    arguments = f"page_reporting.enabled=0 page_reporting.page_reporting_delay_ms={NEVER}"
    options: ClassVar[dict[str, Any]] = {"mib": 512}

    def test_little_memory_is_reported(self) -> None:
        """What is free is less than a batch of the largest blocks, and more than a batch of the smallest reported."""
        free = int(self.guest.run("grep MemFree: /proc/meminfo").split()[1]) // 1024
        self.guest.hold(free - 110)
        self.guest.set(enabled=1)
        assert self.guest.unreported() > 70 * PAGES_PER_MIB
        assert int(self.guest.run("awk '{ sum += $NF } END { print sum }' /proc/buddyinfo")) > 0
        self.guest.wait_until(
            lambda: self.flush(NEVER) >= 0 and self.guest.unreported() <= 0, "a flush to report what there is"
        )
        assert self.guest.counter("nr_free_reported") > 70 * PAGES_PER_MIB


class BootParametersTest(GuestCase):
    """Reporting that is off from the start."""

    arguments = " ".join(
        f"page_reporting.{word}" for word in ("enabled=0", "page_reporting_delay_ms=300", "page_reporting_order=10")
    )

    def test_off_at_boot(self) -> None:
        assert self.guest.get("enabled") == "N"
        assert self.guest.get("page_reporting_delay_ms") == "300"
        assert self.guest.get("page_reporting_order") == "10"
        self.guest.hold(64)
        self.guest.release()
        assert self.guest.counter("page_report_batch") == 0
        assert self.exact() == 0
        # the allocator is not asked to tell of free pages before there is a use for it
        said = "dmesg | grep -c 'Free page reporting enabled'"
        assert self.guest.try_run(said)[1] == "0"
        self.guest.set(enabled=1)
        assert self.guest.try_run(said)[1] == "1"
        self.guest.drained()
        self.exact()


class NoDeviceTest(GuestCase):
    """A guest without a balloon."""

    options: ClassVar[dict[str, Any]] = {"balloon": False}

    def test_no_device(self) -> None:
        assert self.guest.counter("nr_free_reported") == 0
        status, output = self.guest.try_run(f"echo 512 > {PARAMETERS}/flush_pages")
        assert status != 0
        assert "No such device" in output
        self.guest.set(enabled=0)
        self.guest.set(enabled=1, page_reporting_delay_ms=100)
        assert "SKIP" in self.guest.try_run("page_reporting")[1]


class HotplugTest(GuestCase):
    """Memory that comes and goes, with the walk of the free lists."""

    arguments = "memhp_default_state=online_movable"
    options: ClassVar[dict[str, Any]] = {"mib": 1024, "hotplug_mib": 1024}

    def plug(self, mib: int) -> None:
        self.guest.qmp("qom-set", path="/machine/peripheral/mem0", property="requested-size", value=mib * MIB)
        get = {"path": "/machine/peripheral/mem0", "property": "size"}
        # A guest that cannot let go of a block tries again after 50 s, and then after twice that.
        self.guest.wait_until(lambda: self.guest.qmp("qom-get", **get) == mib * MIB, f"{mib} MiB to be plugged", 600)

    def reported_mib(self) -> int:
        return self.guest.counter("nr_free_reported") // PAGES_PER_MIB

    def wait_reported(self, above: int) -> None:
        self.guest.wait_until(lambda: self.reported_mib() > above, f"more than {above} MiB to be reported")

    def settle(self) -> None:
        self.guest.set(page_reporting_delay_ms=100)
        self.guest.pause_drained()
        self.guest.set(enabled=1)

    def test_added_memory_is_reported(self) -> None:
        self.settle()
        before = self.reported_mib()
        # twice, so that a zone that was empty appears and then grows
        for mib in (256, 768):
            self.plug(mib)
            self.wait_reported(above=before + mib - SLACK)
            self.exact()
        self.plug(0)
        self.guest.wait_until(lambda: self.reported_mib() < before + SLACK, "removed memory not to be counted")
        self.exact()
        self.guest.hold(512)
        self.guest.release()
        self.wait_reported(above=before - SLACK)


needs_bitmap = unittest.skipUnless(manifest()["series"] == "bitmap", "the kernel was built without the bitmap")


@needs_bitmap
class BitmapTest(GuestCase):
    """The bitmap, feeding the same counters."""

    arguments = "page_reporting.bitmap=1"

    def setUp(self) -> None:
        assert self.guest.get("bitmap") == "Y"
        self.guest.set(enabled=1)

    def test_kselftest(self) -> None:
        status, output = self.guest.try_run("page_reporting")
        assert status == 0, output

    def test_reports(self) -> None:
        tracing = "/sys/kernel/tracing"
        self.guest.run(f"echo 1 > {tracing}/events/page_reporting/enable; echo > {tracing}/trace")
        before = self.guest.counter("page_report_pages")
        self.guest.hold(USED)
        used = self.guest.resident_mib()
        started = time.monotonic()
        self.guest.release()
        self.guest.wait_until(lambda: self.guest.resident_mib() < used - USED * 9 // 10, "the host to get 90 % back")
        print(f"90 % of {USED} MiB back on the host: {time.monotonic() - started:.1f} s with the bitmap", flush=True)
        self.exact()
        assert self.guest.counter("page_report_pages") > before + (USED - SLACK) * PAGES_PER_MIB
        self.guest.run(f"echo 0 > {tracing}/events/page_reporting/enable")
        sizes = [int(nr) for nr in re.findall(r"batch: .* nents=(\d+)", self.guest.run(f"cat {tracing}/trace"))]
        assert max(sizes) == 16

    def test_reallocation(self) -> None:
        self.guest.hold(USED)
        self.guest.release()
        self.guest.wait_until(
            lambda: self.guest.counter("nr_free_reported") > (USED - SLACK) * PAGES_PER_MIB, "reports"
        )
        self.guest.hold(USED)
        self.exact()
        self.guest.release()
        self.exact()

    def test_off_then_on(self) -> None:
        self.guest.set(enabled=0)
        batches = self.guest.counter("page_report_batch")
        self.guest.hold(USED)
        used = self.guest.resident_mib()
        self.guest.release()
        assert self.guest.counter("page_report_batch") == batches
        self.guest.set(enabled=1)
        self.guest.wait_until(lambda: self.guest.resident_mib() < used - USED * 9 // 10, "the host to get 90 % back")
        self.exact()


@needs_bitmap
class BitmapHotplugTest(HotplugTest):
    """Memory that comes and goes, with the bitmap."""

    arguments = "memhp_default_state=online_movable page_reporting.bitmap=1"

    def settle(self) -> None:
        """What was never freed stays unreported."""
