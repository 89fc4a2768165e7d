"""Runs inside a virtual host with the kernel for hosts: processes that stand for VMs, and KSM with several threads."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from merging_data import PAGE, RUN, kinds_of, pages_of  # type: ignore[import-not-found]  # beside it, inside

KSM = Path("/sys/kernel/mm/ksm")
FLAT_OUT = {"use_zero_pages": "1", "advisor_mode": "none", "pages_to_scan": "1000000", "sleep_millisecs": "0"}
_LOOK = 0.05  # seconds: to look takes time of the processors that KSM runs on
_ALL, _RANGES, _NONE = b"a", b"r", b"n"


@dataclass(frozen=True, slots=True)
class Standing:
    """A process that stands for a VM: a word through one pipe has it mark its memory, and the other has its answer."""

    pid: int
    tell: int
    heard: int

    def mark(self, what: bytes) -> None:
        """Have all of its memory merge, or the runs that have an equal, or nothing."""
        os.write(self.tell, what)
        if os.read(self.heard, 1) != what:
            raise RuntimeError("a process that stands for a VM has ended")


_standing: list[Standing] = []


def fill(vms: int, size: int, shared: float, prefixed: float) -> int:
    """Start so many with so many bytes; how many pages of all together can merge."""
    can = 0
    for number in range(vms):
        pages, equal = pages_of(number, size // PAGE, shared, prefixed)
        ranges = list(_ranges(kinds_of(len(pages), shared, prefixed)))
        (inside, tell), (heard, outside) = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            _stand(pages, ranges, inside, outside)
        os.close(inside)
        os.close(outside)
        _standing.append(Standing(pid, tell, heard))
        _standing[-1].mark(_NONE)
        can += equal
    return can


def merge(threads: int, ranges: bool, pages: int, patience: float) -> dict[str, Any]:
    """How long it takes KSM, flat out, until so many pages have merged, and its CPU; both in seconds.

    :param ranges: merge only what has an equal
    """
    for name, value in {**FLAT_OUT, "run": "2", "run_threads": str(threads)}.items():
        (KSM / name).write_text(value)
    for one in _standing:
        one.mark(_RANGES if ranges else _ALL)
    helped, used, began = _counter("pages_by_threads"), _cpu(), time.monotonic()
    (KSM / "run").write_text("1")
    while (merged := _merged()) < pages and time.monotonic() - began < patience:
        time.sleep(_LOOK)
    seconds, cpu = time.monotonic() - began, _cpu() - used
    helped = _counter("pages_by_threads") - helped
    (KSM / "run").write_text("2")
    for one in _standing:
        one.mark(_NONE)
    return {"seconds": seconds, "cpu": cpu, "merged": merged, "helped": helped}


def _stand(pages: list[bytes], ranges: list[tuple[int, int]], inside: int, outside: int) -> NoReturn:
    try:
        memory = mmap.mmap(-1, len(pages) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for page in pages:
            memory.write(page)
        while what := os.read(inside, 1):
            memory.madvise(mmap.MADV_UNMERGEABLE)
            for start, size in {_ALL: [(0, len(memory))], _RANGES: ranges}.get(what, []):
                memory.madvise(mmap.MADV_MERGEABLE, start, size)
            os.write(outside, what)
    finally:
        os._exit(0)


def _ranges(kinds: list[str]) -> Iterator[tuple[int, int]]:
    """First byte and size of each run of pages that other VMs have, too."""
    for at, kind in enumerate(kinds):
        if kind != "own":
            yield at * RUN * PAGE, RUN * PAGE


def _counter(name: str) -> int:
    return int((KSM / name).read_text())


def _merged() -> int:
    return _counter("pages_shared") + _counter("pages_sharing")


def _cpu() -> float:
    """Seconds that ksmd and its threads have used."""
    nanoseconds = 0
    for path in Path("/proc").glob("[0-9]*/comm"):
        if path.read_text().startswith("ksmd"):
            nanoseconds += int((path.parent / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9
