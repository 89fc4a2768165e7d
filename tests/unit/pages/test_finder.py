"""The finder: what it counts of guests that are still, that write, and that go away meanwhile."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from array import array
from collections import Counter
from pathlib import Path

import pytest

from memhint.kernel import page_index
from memhint.kernel.errors import ProcessGone
from memhint.kernel.guest_pages import PART, GuestPages, Span
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.pages import finder as page_finder
from memhint.pages.finder import FREQUENT, Finder, FinderSettings, Found, KeptHashes
from memhint.pages.samples import PageSamples
from memhint.planner.dedup_estimate import KsmPace, estimate
from tests.unit import builders

from .native import compiled
from .test_samples import Clock, Vm, candidate

ROOT = KernelRoot()
PAGES = 4096  # of each VM, for all that is said of it
FAST = FinderSettings(workers=2, cpu_percent=200.0, bytes_per_second=1 << 40, settle=0.0)


@pytest.fixture
def vms(monkeypatch: pytest.MonkeyPatch) -> dict[int, Vm]:
    """Guests by a number that stands for their pid; each is a part of this process."""
    found: dict[int, Vm] = {}

    class Pages(GuestPages):
        def __init__(self, root, pid, seed, page_size, native, buffer) -> None:
            if pid not in found:
                raise ProcessGone(root.path(f"proc/{pid}"), "it ended")
            super().__init__(root, os.getpid(), seed, page_size, native, buffer)

    def ram(root, pid):
        if pid not in found:
            raise ProcessGone(root.path(f"proc/{pid}"), "it ended")
        return (found[pid].span,)

    monkeypatch.setattr(page_finder, "GuestPages", Pages)
    monkeypatch.setattr(page_finder, "guest_ram", ram)
    monkeypatch.setattr(page_finder, "instance_runs", lambda root, instance: True)
    return found


def process(pid: int):
    return builders.process(pid=pid, rss=PAGES * PAGE_SIZE, ksm_zero=0)


def whole(text: bytes) -> bytes:
    """A page that is full of it."""
    return (text * PAGE_SIZE)[:PAGE_SIZE]


def find(vms: dict[int, Vm], settings: FinderSettings = FAST, native: bool = True, between=None) -> Found:
    class Between(threading.Event):
        """Something happens between the two looks."""

        def wait(self, timeout: float | None = None) -> bool:
            if timeout == settings.settle and between is not None:
                between()
            return super().wait(0)

    finder = Finder(ROOT, PAGE_SIZE, 7, settings, native=compiled() if native else None)
    found = finder.round({str(pid): process(pid) for pid in vms}, Between())
    assert found is not None
    return found


def saving(found: Found) -> int:
    return estimate(found.samples, "p1", PAGE_SIZE, KsmPace())[0].saving // PAGE_SIZE


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
def test_what_two_vms_have_in_common_is_counted_exactly(vms: dict[int, Vm], workers: int, native: bool) -> None:
    for pid in (1, 2, 3):
        same = [whole(b"same-%d" % page) for page in range(100)]
        own = [whole(b"own-%d-%d" % (pid, page)) for page in range(300)]
        vms[pid] = Vm(same + own + [whole(b"twice-%d" % pid)] * 2 + [b""] * 10)
    settings = FinderSettings(workers, 100.0 * workers, 1 << 40, 0.0)
    found = find(vms, settings, native)
    assert saving(found) == 200 + 3 + 30
    group, parts = estimate(found.samples, "p1", PAGE_SIZE, KsmPace())
    assert (group.error, group.looked) == (0, 3 * 412 * PAGE_SIZE)
    assert [(one.zero, one.within, one.changed) for one in parts] == [(10 * PAGE_SIZE, PAGE_SIZE, 0)] * 3
    assert found.round.compiled is native
    # A part of every page, with what lies between where that is faster, and the whole of those with a partner, twice.
    first = found.round.read - 2 * 3 * 112 * PAGE_SIZE
    assert (3 * 412 * PART if native else 3 * 412 * PAGE_SIZE) <= first <= 3 * 412 * PAGE_SIZE
    assert found.round.candidates - found.round.without_partner == 306 * PAGE_SIZE


def test_pages_that_a_guest_writes_between_the_looks_are_no_candidates(vms: dict[int, Vm]) -> None:
    for pid in (1, 2):
        vms[pid] = Vm([b"same-%d" % page for page in range(200)])

    def write() -> None:
        for page in range(50):
            vms[2].fill(page, b"written-%d" % page)

    found = find(vms, between=write)
    assert saving(found) == 150
    assert found.samples["2"].changed == 50


def test_pages_that_are_equal_where_they_are_glanced_at_are_no_candidates(vms: dict[int, Vm]) -> None:
    """A guest cannot know where; one whose pages differ in some bytes only costs a look more."""
    vms[1] = Vm([b"page-%d" % page for page in range(100)])  # zeros behind that
    found = find(vms)
    assert (found.round.candidates, saving(found)) == (0, 0)
    # What lies between the parts is read, too, where pages happen to lie side by side in the machine's memory.
    assert 100 * PART <= found.round.read - 100 * PAGE_SIZE <= 100 * PAGE_SIZE
    assert found.ranges["1"].ranges == ()


def test_a_guest_that_writes_all_the_time_has_nothing_to_merge(vms: dict[int, Vm]) -> None:
    for pid in (1, 2):
        vms[pid] = Vm([whole(b"same-%d" % page) for page in range(64)])

    def write() -> None:
        for page in range(64):  # in step with each other, so that they are equal at each look
            for pid in (1, 2):
                vms[pid].fill(page, whole(b"later-%d" % page))

    found = find(vms, between=write)
    assert (found.round.candidates, saving(found)) == (0, 0)
    assert found.samples["1"].changed == 64


def test_a_vm_that_ends_in_mid_round_counts_nowhere_and_is_told(vms: dict[int, Vm]) -> None:
    for pid in (1, 2, 3):
        vms[pid] = Vm([b"same-%d" % page for page in range(100)])
    found = find(vms, between=lambda: vms.pop(3))
    assert set(found.samples) == {"1", "2"}
    assert list(found.failed) == ["3"]
    assert "it ended" in found.failed["3"]
    assert saving(found) == 100


def test_a_pid_that_is_another_process_by_now_is_not_read(vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch) -> None:
    vms[1] = Vm([b"same"] * 4)
    monkeypatch.setattr(page_finder, "instance_runs", lambda root, instance: False)
    found = find(vms)
    assert "another process's" in found.failed["1"]
    assert found.round.read == 0


def test_a_balloon_that_takes_pages_in_mid_round_takes_them_from_the_count(vms: dict[int, Vm]) -> None:
    for pid in (1, 2):
        vms[pid] = Vm([b"same-%d" % page for page in range(200)])

    found = find(vms, between=lambda: vms[1].map.madvise(mmap.MADV_DONTNEED, 0, 120 * PAGE_SIZE))
    assert saving(found) == 80
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        entries = array("Q", os.pread(pagemap.fileno(), 120 * 8, vms[1].span.start // PAGE_SIZE * 8))
    assert not any(one >> 63 for one in entries), "absent pages were made present"


def test_the_same_page_a_thousand_times_is_one_content(vms: dict[int, Vm]) -> None:
    vms[1] = Vm([b"all the same"] * 1000)
    assert saving(find(vms)) == 1000 - 4  # KSM keeps one for 256


def test_crafted_collisions_in_the_index_are_told_from_partners(
    vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever bits a guest could make equal: who has no partner by the whole hash saves nothing."""
    monkeypatch.setattr(page_index, "_bits", lambda one, words: (0, 1))
    vms[1] = Vm([whole(b"page-%d" % page) for page in range(100)])
    found = find(vms, native=False)
    assert found.round.candidates == found.round.without_partner == 100 * PAGE_SIZE
    assert saving(found) == 0


def test_ranges_hold_what_has_a_partner_wherever_it_lies(vms: dict[int, Vm]) -> None:
    for pid in (1, 2):
        own = [whole(b"own-%d-%d" % (pid, page)) for page in range(1024)]
        for first in (0, 300, 1000):  # at a block's edge, across chunks, and at the end
            own[first : first + 24] = [whole(b"same-%d" % page) for page in range(first, first + 24)]
        own[512:520] = [b""] * 8
        vms[pid] = Vm(own)
    found = find(vms)
    for pid in (1, 2):
        choice, start = found.ranges[str(pid)], vms[pid].span.start
        assert choice.ranges is not None
        held = {page for first, end in choice.ranges for page in range((first - start) // 4096, (end - start) // 4096)}
        assert {*range(24), *range(300, 324), *range(1000, 1024), *range(512, 520)} <= held
        assert len(held) == 32 + 48 + 32 + 16
        assert choice.holds == 3 * 24 + 8


def test_a_round_that_is_stopped_tells_nothing(vms: dict[int, Vm]) -> None:
    vms[1] = Vm([b"same"] * 4)
    stop = threading.Event()
    stop.set()
    assert Finder(ROOT, PAGE_SIZE, 7, FAST).round({"1": process(1)}, stop) is None


def test_a_defect_in_a_worker_is_raised_where_the_round_is_waited_for(
    vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch
) -> None:
    vms[1] = Vm([b"same"] * 4)
    monkeypatch.setattr(page_index.PageIndex, "enter", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        find(vms)


@pytest.mark.parametrize(
    ("percent", "rate", "least"), [(5.0, 1 << 40, None), (200.0, 8 << 20, 2 * 4 / 8)], ids=["cpu", "bytes"]
)
def test_it_keeps_to_its_share_of_cpu_and_of_bytes(
    vms: dict[int, Vm], percent: float, rate: int, least: float | None
) -> None:
    vms[1] = Vm([whole(b"page-%d" % (page % 512)) for page in range(1024)])  # 4 MiB, read twice
    finder = Finder(ROOT, PAGE_SIZE, 7, FinderSettings(1, percent, rate, 0.0), native=compiled())
    began = time.monotonic()
    found = finder.round({"1": process(1)}, threading.Event())
    elapsed = time.monotonic() - began
    assert found is not None
    assert elapsed >= (0.9 * least if least is not None else 0.9 * found.round.cpu / (percent / 100))


def test_reading_breaks_up_no_huge_page() -> None:

    size = 8 << 20
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    memory.write(os.urandom(size))
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def huge() -> int:
        text = Path("/proc/self/smaps_rollup").read_text()
        return int(text.split("AnonHugePages:")[1].split()[0])

    before = huge()
    if before == 0:
        pytest.skip("this machine gave no huge page")
    with GuestPages(ROOT, os.getpid(), 7, PAGE_SIZE, compiled()) as pages:
        for at in range(start - start % PAGE_SIZE, start + size, 256 * PAGE_SIZE):
            pages.look(at, 256)
            pages.parts(at, 256)
    assert huge() == before


# -- hashes that are kept ----------------------------------------------------------------------------------------------


def test_too_many_hashes_are_kept_by_content_and_frequent_ones_are_counted() -> None:
    kept = KeptHashes(at_most=1000)
    pairs = array("Q", [one << 20 | one for one in range(3000)])
    often = array("Q", [12345] * FREQUENT * 10)
    for uuid in ("a", "b"):
        kept.add(uuid, often)
        kept.add(uuid, pairs)
    assert sum(len(one) for one in kept.hashes.values()) <= 1000
    assert kept.rate >= 8
    assert set(kept.hashes["a"]) == set(kept.hashes["b"]), "both keep the same contents"
    total = sum(kept.frequent[uuid][12345] for uuid in ("a", "b"))
    assert total == 2 * len(often)
    estimated = kept.rate * len(kept.hashes["a"])
    assert abs(estimated - 3000) < 3000 * 0.2


def test_a_vm_that_is_forgotten_leaves_room() -> None:
    kept = KeptHashes(at_most=10)
    for _ in range(100):
        kept.add("a", array("Q", range(8)))
        kept.forget("a")
    assert kept.rate == 1
    kept.add("b", array("Q", [1, 1, 2]))
    assert kept.alone() == {"b": 1}
    assert Counter(kept.hashes["b"]) == {1: 2, 2: 1}


def test_what_finding_the_memory_takes_is_counted_too(vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch) -> None:
    vms[1] = Vm([b"one"])
    ram = page_finder.guest_ram

    def slow(root, pid):
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        return ram(root, pid)

    monkeypatch.setattr(page_finder, "guest_ram", slow)
    assert find(vms).round.cpu >= 0.2


class Openings:
    """Counts how often a process was opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pids: list[int] = []
        pages = page_finder.GuestPages

        def opened(root, pid, *rest):
            self.pids.append(pid)
            return pages(root, pid, *rest)

        monkeypatch.setattr(page_finder, "GuestPages", opened)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_vm_is_opened_once_a_look_whatever_stretches_it_has(
    vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    for pid in (1, 2):
        vms[pid] = Vm([b"same-%d" % page for page in range(40)])

    def in_four(root, pid):
        span = vms[pid].span
        size = (span.end - span.start) // 4 // PAGE_SIZE * PAGE_SIZE
        return tuple(Span(span.start + at * size, span.start + (at + 1) * size) for at in range(4))

    monkeypatch.setattr(page_finder, "guest_ram", in_four)
    openings = Openings(monkeypatch)
    assert saving(find(vms, FinderSettings(workers, 100.0 * workers, 1 << 40, 0.0))) == 40
    assert sorted(openings.pids) == [1, 1, 1, 2, 2, 2]


# -- as the estimate's source ------------------------------------------------------------------------------------------


def test_the_estimate_says_that_the_finder_made_it(vms: dict[int, Vm]) -> None:
    for pid in (1, 2, 3):
        vms[pid] = Vm([b"same-%d" % page for page in range(40)])
    clock = Clock()
    samples = PageSamples(ROOT, PAGE_SIZE, 50.0, 3600.0, 10.0, KsmPace(), clock, clock, finder=FAST)
    # Two of one project, and one of another: looked at apart, for they share nothing.
    samples.want({"a": candidate(1), "b": candidate(2), "c": candidate(3, "p2")})
    for _ in range(20):
        samples.step()
        clock.now += 20.0
    assert samples.complete()
    found = samples.newest()
    assert found is not None
    assert found.finder is not None
    assert {one.project: one.saving for one in found.groups} == {"p1": 40 * PAGE_SIZE, "p2": 0}
    assert found.cpu > 0


def test_without_a_finder_the_estimate_says_that_samples_made_it() -> None:
    clock = Clock()
    found = PageSamples(ROOT, PAGE_SIZE, 50.0, 3600.0, 10.0, KsmPace(), clock, clock).newest()
    assert found is not None
    assert found.finder is None


def test_a_vm_that_cannot_be_looked_at_leaves_the_others_their_estimate(vms: dict[int, Vm]) -> None:
    for pid in (1, 2):
        vms[pid] = Vm([b"same-%d" % page for page in range(40)])
    clock = Clock()
    samples = PageSamples(ROOT, PAGE_SIZE, 50.0, 3600.0, 10.0, KsmPace(), clock, clock, finder=FAST)
    samples.want({"a": candidate(1), "b": candidate(2), "gone": candidate(9)})
    for _ in range(20):
        samples.step()
        clock.now += 20.0
    found = samples.newest()
    assert samples.complete()
    assert found is not None
    assert found.waiting == ("gone",)
    assert found.groups[0].saving == 40 * PAGE_SIZE
