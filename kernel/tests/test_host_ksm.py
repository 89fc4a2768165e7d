"""KSM of the kernel for hosts: what merging empty pages costs.

Run with kernel/tests/run --series host. The costs are in instructions: the machine's clock goes on by a nanosecond with
each, and the kernel keeps the time of each thread.
"""

from __future__ import annotations

from typing import Any, ClassVar

from case import KernelCase

from lab.kernel_guest import PAGES_PER_MIB, Guest, image_folder

KSM = "/sys/kernel/mm/ksm"
# What the target is about: of all empty memory, and of what stock KSM takes for it.
BACK, PART = 0.9, 0.2


class KsmCase(KernelCase):
    """One machine for all tests of a class."""

    options: ClassVar[dict[str, Any]] = {}

    @classmethod
    def boot(cls) -> Guest:
        return Guest(image_folder(), balloon=False, **cls.options)

    def set(self, **values: object) -> None:
        """Write knobs of KSM."""
        for name, value in values.items():
            self.guest.run(f"echo {value} > {KSM}/{name}")


class CostTest(KsmCase):
    """What ksmd executes until most of the empty memory is back, with the mode and without."""

    options: ClassVar[dict[str, Any]] = {"mib": 512, "cpus": 1, "words": ("-icount", "shift=0,sleep=off")}

    def cost(self, empty: int, other: int, *, only: bool) -> float:
        """Instructions of ksmd per empty page that came back, until `BACK` of them were."""
        self.set(run=0, pages_to_scan=2000, sleep_millisecs=2, use_zero_pages=1, zero_pages_only=int(only))
        self.guest.run(f"memory merge {empty} {other} > /tmp/held & echo $! > /tmp/holder")
        self.guest.wait_until(lambda: self.guest.try_run("grep -q held /tmp/held")[0] == 0, "the memory to be there")
        pages = int(empty * PAGES_PER_MIB * BACK)
        back = f"grep -o '[0-9]*' {KSM}/ksm_zero_pages"
        seen = "cut -d' ' -f1 /proc/$(pidof ksmd)/schedstat"
        before, after, found, others = self.guest.run(
            f"{seen}; echo 1 > {KSM}/run; until [ $({back}) -ge {pages} ]; do usleep 1000; done; {seen};"
            f" echo 0 > {KSM}/run; cat {KSM}/ksm_zero_pages {KSM}/pages_sharing"
        ).split()
        self.guest.run(f"kill $(cat /tmp/holder); wait; rm -f /tmp/held; echo 2 > {KSM}/run")
        assert int(others) == 0
        return (int(after) - int(before)) / int(found)

    def test_empty_pages_among_others(self) -> None:
        """One page in four is empty, as a guest's free memory may be."""
        stock, only = (self.cost(24, 72, only=only) for only in (False, True))
        print(f"a quarter is empty: {stock:.0f} instructions per page, {only:.0f} with the mode: {only / stock:.3f}")
        assert only <= PART * stock

    def test_nothing_but_empty_pages(self) -> None:
        """All that can be spared is a second scan and what is remembered; the rest is the merging itself."""
        stock, only = (self.cost(48, 0, only=only) for only in (False, True))
        print(f"all is empty: {stock:.0f} instructions per page, {only:.0f} with the mode: {only / stock:.3f}")
        assert only < stock
