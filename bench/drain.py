"""How fast a guest gives back what it freed: bytes reported by its kernel, and bytes that left QEMU, over time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.counted_guest import GuestFailed, Kernel
from bench.figures import PAGE, time_to, value_at
from kernel.tests.guest import Guest, GuestError, wait_until
from memhint.objects.units import MIB

MEMORY_MIB = 2048
FREED_MIB = 1280
WINDOW = 40.0  # seconds a drain gets
TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0)


@dataclass(frozen=True, slots=True)
class Drain:
    """One free of FREED_MIB: samples of (seconds, bytes), and how many batches and pages were reported meanwhile."""

    reported: tuple[tuple[float, float], ...]
    left: tuple[tuple[float, float], ...]
    batches: int
    pages: int

    def seconds(self, share: float) -> float | None:
        """When that share of what was freed had left QEMU, None if it never had."""
        return time_to(self.left, share * FREED_MIB * MIB)

    def as_json(self) -> dict[str, Any]:
        """For the results file; the curve at a few points, in MiB."""
        return {
            "seconds_to_50_percent": self.seconds(0.5),
            "seconds_to_90_percent": self.seconds(0.9),
            "batches": self.batches,
            "pages": self.pages,
            "reported_mib": {f"{at:g}": round(value_at(self.reported, at) / MIB) for at in TIMES},
            "left_qemu_mib": {f"{at:g}": round(value_at(self.left, at) / MIB) for at in TIMES},
        }


@contextmanager
def draining_guest(kernel: Kernel, words: str = "") -> Iterator[Guest]:
    """A guest whose free memory is reported. Raises GuestFailed, also for what fails in the body."""
    try:
        guest = Guest(kernel.folder, mib=MEMORY_MIB, arguments=words)
    except GuestError as error:
        raise GuestFailed(str(error)) from None
    try:
        yield guest
    except GuestError as error:
        raise GuestFailed(str(error)) from None
    finally:
        guest.close()


def drain(guest: Guest, delay_ms: int | None) -> Drain:
    """Use FREED_MIB and free them; `delay_ms` None leaves the delay as it is."""
    if delay_ms is not None:
        # what the last drain left over would be counted here
        guest.set(page_reporting_delay_ms=200)
        _settle(guest)
        guest.set(page_reporting_delay_ms=delay_ms)
    guest.hold(FREED_MIB)
    before, (pages_before, batches_before) = guest.resident_mib() * MIB, _counters(guest)
    reported, left = [], []
    guest.run("kill $(cat /tmp/holder)")
    began = time.monotonic()
    while (at := time.monotonic() - began) < WINDOW:
        left.append((at, float(before - guest.resident_mib() * MIB)))
        pages = _counters(guest)[0] - pages_before
        reported.append((time.monotonic() - began, float(pages * PAGE)))
        if left[-1][1] >= 0.95 * FREED_MIB * MIB and reported[-1][1] == reported[-2][1]:
            break
        time.sleep(0.05)
    pages, batches = _counters(guest)
    guest.run("wait; rm -f /tmp/held /tmp/holder")
    return Drain(tuple(reported), tuple(left), batches - batches_before, pages - pages_before)


def _counters(guest: Guest) -> tuple[int, int]:
    """Pages and batches reported since boot. The serial line of a guest on a busy host may lose a character."""
    wanted = re.compile(r"page_report_pages (\d+)\npage_report_batch (\d+)")
    found = wait_until(
        lambda: wanted.fullmatch(guest.run("grep -E '^page_report_(pages|batch) ' /proc/vmstat")), "the counters", 10
    )
    return int(found[1]), int(found[2])


def _settle(guest: Guest) -> None:
    """Until a look and the next one a second later show as many reported pages."""
    before = -1
    while (now := _counters(guest)[0]) != before:
        before = now
        time.sleep(1)
