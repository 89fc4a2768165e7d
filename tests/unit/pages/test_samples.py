"""Looking at pages in the background: who is looked at when, at what price, and what becomes of it."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from memhint.kernel import guest_pages
from memhint.kernel.guest_pages import GuestPages, PageHashes, Span
from memhint.kernel.process import process_memory
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.objects.domain import DomainState
from memhint.objects.policy import Origin, effective
from memhint.pages import page_pass
from memhint.pages import samples as page_samples
from memhint.pages.candidates import Candidate, candidates
from memhint.pages.page_pass import PagePass, Phase
from memhint.pages.samples import PageSamples
from memhint.planner.dedup_estimate import KsmPace
from memhint.planner.dedup_settings import MergeSettings
from memhint.planner.settings import PlannerSettings
from tests.clock import Clock
from tests.unit import builders

ROOT = KernelRoot()


class Vm:
    """Memory of this process that stands for a guest's."""

    def __init__(self, contents: list[bytes]) -> None:
        self.map = mmap.mmap(-1, len(contents) * PAGE_SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.map.madvise(mmap.MADV_NOHUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.span = Span(start, start + len(contents) * PAGE_SIZE)
        for page, text in enumerate(contents):
            self.fill(page, text)

    def fill(self, page: int, text: bytes) -> None:
        self.map[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] = text.ljust(PAGE_SIZE, b"\0")


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
def vms(monkeypatch: pytest.MonkeyPatch) -> dict[int, Vm]:
    """Guests by a number that stands for their pid; each is a part of this process."""
    found: dict[int, Vm] = {}

    class Pages(GuestPages):
        def __init__(self, root, pid, seed, page_size, buffer) -> None:
            super().__init__(root, os.getpid(), seed, page_size, buffer=buffer)

    monkeypatch.setattr(page_samples, "GuestPages", Pages)
    monkeypatch.setattr(page_samples, "guest_ram", lambda root, pid: (found[pid].span,))
    monkeypatch.setattr(page_samples, "process_memory", lambda root, pid, size: builders.process(pid=pid))
    return found


def samples(clock: Clock, settle: float = 10.0, percent: float = 50.0) -> PageSamples:
    return PageSamples(ROOT, PAGE_SIZE, percent, 3600.0, settle, KsmPace(), wall=clock, clock=clock)


def candidate(pid: int, pool: str | None = "p1", asks: bool = True, alone: bool = False) -> Candidate:
    return Candidate(builders.process(pid=pid, rss=1 << 20, ksm_zero=0), pool, asks, alone)


def run(one: PageSamples, clock: Clock) -> None:
    for _ in range(200):
        if one.complete():
            return
        one.step()
        clock.now += 1.0
    raise AssertionError("never complete")


def test_two_vms_with_the_same_pages_share_them(clock: Clock, vms: dict[int, Vm]) -> None:
    for pid in (1, 2):
        vms[pid] = Vm([b"same-%d" % page for page in range(50)] + [b"own-%d-%d" % (pid, page) for page in range(30)])
    one = samples(clock)
    one.want({"a": candidate(1), "b": candidate(2)})
    run(one, clock)
    found = one.newest()
    (group,) = found.groups
    assert (group.saving, group.looked) == (50 * PAGE_SIZE, 160 * PAGE_SIZE)
    assert found.asking == found.groups
    assert found.waiting == ()


def test_those_who_ask_are_estimated_by_themselves(clock: Clock, vms: dict[int, Vm]) -> None:
    for pid in (1, 2, 3):
        vms[pid] = Vm([b"same-%d" % page for page in range(10)])
    one = samples(clock)
    one.want({"a": candidate(1), "b": candidate(2, asks=False), "c": candidate(3)})
    run(one, clock)
    assert one.newest().groups[0].saving == 20 * PAGE_SIZE
    assert one.newest().asking_of("p1").saving == 10 * PAGE_SIZE


def test_projects_and_vms_of_nobody_share_nothing(clock: Clock, vms: dict[int, Vm]) -> None:
    for pid in (1, 2, 3, 4):
        vms[pid] = Vm([b"same-%d" % page for page in range(10)])
    one = samples(clock)
    one.want(
        {
            "a": candidate(1),
            "b": candidate(2, "p2"),
            "c": candidate(3, None, alone=True),
            "d": candidate(4, None, alone=True),
        }
    )
    run(one, clock)
    assert len(one.newest().groups) == 4
    assert all(group.saving == 0 for group in one.newest().groups)


def test_a_page_that_changes_between_the_looks_does_not_count(clock: Clock, vms: dict[int, Vm]) -> None:
    for pid in (1, 2):
        vms[pid] = Vm([b"same-%d" % page for page in range(20)] + [b""] * 10)
    one = samples(clock)
    one.want({"a": candidate(1), "b": candidate(2)})
    while set(one._waiting) != {"a", "b"}:
        one.step()
    for page in range(5):
        vms[1].fill(page, b"changed-%d" % page)
    vms[2].fill(25, b"no zeros any more")
    run(one, clock)
    (group,) = one.newest().groups
    assert group.saving == (15 + 19) * PAGE_SIZE
    assert sum(vm.changed for vm in one.newest().vms) == 6 * PAGE_SIZE


def test_the_second_look_waits_and_another_vm_comes_first(clock: Clock, vms: dict[int, Vm]) -> None:
    vms[1], vms[2] = Vm([b"x"]), Vm([b"y"])
    one = samples(clock, settle=30.0)
    one.want({"a": candidate(1), "b": candidate(2)})
    while set(one._waiting) != {"a", "b"}:
        one.step()  # the clock stands still
    clock.now += 29.0
    one.step()
    assert one.newest().waiting == ("a", "b")
    clock.now += 2.0
    run(one, clock)
    assert one.newest().waiting == ()


def test_passes_that_wait_have_one_buffer_between_them_and_none_is_kept_without_passes(
    clock: Clock, vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[memoryview]] = []

    def read_buffer(page_size: int) -> memoryview:
        buffer = guest_pages.read_buffer(page_size)
        made.append(weakref.ref(buffer))
        return buffer

    monkeypatch.setattr(page_samples, "read_buffer", read_buffer)
    for pid in (1, 2, 3):
        vms[pid] = Vm([b"x"])
    one = samples(clock)
    one.want({"a": candidate(1), "b": candidate(2), "c": candidate(3)})
    while set(one._waiting) != {"a", "b", "c"}:
        one.step()
    assert [buffer() is not None for buffer in made] == [True]
    run(one, clock)
    one.step()
    assert [buffer() for buffer in made] == [None]


def test_a_vm_is_looked_at_again_after_the_interval(clock: Clock, vms: dict[int, Vm]) -> None:
    vms[1] = Vm([b"x", b"x"])
    one = samples(clock)
    one.want({"a": candidate(1)})
    run(one, clock)
    assert one.newest().groups[0].saving == PAGE_SIZE
    vms[1].fill(1, b"y")
    clock.now += 3000.0
    assert one.step() == 1.0  # nothing is due
    clock.now += 700.0
    for _ in range(20):
        one.step()
        clock.now += 1.0
    assert one.newest().groups[0].saving == 0


def test_a_vm_that_leaves_or_starts_anew_takes_its_sample_with_it(clock: Clock, vms: dict[int, Vm]) -> None:
    for pid in (1, 2, 3):
        vms[pid] = Vm([b"same"])
    one = samples(clock)
    one.want({"a": candidate(1), "b": candidate(2)})
    run(one, clock)
    one.want({"a": candidate(3)})  # another QEMU of the same VM
    assert one.newest().waiting == ("a",)
    run(one, clock)
    assert one.newest().groups[0].members == ("a",)


def test_a_pass_over_a_vm_that_is_no_candidate_any_more_ends(clock: Clock, vms: dict[int, Vm]) -> None:
    vms[1] = Vm([b"x"])
    one = samples(clock)
    one.want({"a": candidate(1)})
    while not one._waiting:
        one.step()
    one.want({})
    one.step()
    assert not one._waiting
    assert one._running is None


def test_a_pid_that_is_another_process_by_now_is_not_read(clock: Clock, vms: dict[int, Vm]) -> None:
    one = samples(clock)
    one.want({"a": Candidate(builders.process(pid=1, start_ticks=5), "p1", True)})
    one.step()
    assert one._running is None
    assert one.newest().vms == ()


def test_it_rests_in_proportion_to_what_it_took(
    clock: Clock, vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One piece a step: on a fast machine nothing would be left to do within a step, and what is idle rests for longer.
    monkeypatch.setattr(page_samples, "_AT_ONCE", 0.0)
    vms[1] = Vm([b"%d" % page for page in range(2000)])
    one = samples(clock, percent=1.0)
    one.want({"a": candidate(1)})
    before = one.newest().cpu
    rest = one.step()
    took = one.newest().cpu - before
    assert rest == pytest.approx(100 * took)


def test_a_share_of_nothing_looks_at_nothing(clock: Clock) -> None:
    one = samples(clock, percent=0.0)
    one.start()
    assert one._thread is None
    assert one.newest() is None


def test_a_reload_goes_on_with_what_was_found(clock: Clock, vms: dict[int, Vm]) -> None:
    vms[1], vms[2] = Vm([b"same"]), Vm([b"same"])
    one = samples(clock)
    one.want({"a": candidate(1)})
    run(one, clock)
    other = samples(clock)
    other.inherit(one)
    other.want({"a": candidate(1), "b": candidate(2)})
    run(other, clock)
    assert other.newest().groups[0].saving == PAGE_SIZE  # their hashes are of one seed


class Recorded:
    """Pages of zeros only, any number of them."""

    def look(self, start: int, pages: int) -> PageHashes:
        look = PageHashes()
        look.zeros.extend(range(start, start + pages * PAGE_SIZE, PAGE_SIZE))
        return look

    def look_again(self, addresses) -> PageHashes:
        look = PageHashes()
        look.zeros.extend(addresses[::2])
        return look

    def close(self) -> None:
        """Nothing to close."""


def test_every_rateth_page_of_zeros_is_tried_again_across_chunks() -> None:
    one = PagePass(builders.process(), Recorded(), [Span(0, 1000 * PAGE_SIZE)], 8, PAGE_SIZE)
    while one.step() is not Phase.DONE:
        pass
    found = one.sample(0)
    assert (found.zeros, found.zeros_tried) == (1000, 125)
    assert found.zeros_held == 63
    assert found.still_zero == pytest.approx(1000 * 63 / 125)


def test_it_is_not_complete_while_the_last_vm_is_being_begun(
    clock: Clock, vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch
) -> None:
    vms[1] = Vm([b"x"])
    one = samples(clock)
    one.want({"a": candidate(1)})
    seen = []
    monkeypatch.setattr(page_samples, "guest_ram", lambda root, pid: seen.append(one.complete()) or (vms[1].span,))
    run(one, clock)
    assert seen == [False]


def test_it_is_not_complete_while_the_estimate_is_being_made(
    clock: Clock, vms: dict[int, Vm], monkeypatch: pytest.MonkeyPatch
) -> None:
    vms[1] = Vm([b"x"])
    one = samples(clock)
    one.want({"a": candidate(1)})
    seen = []
    real = page_samples.estimate
    monkeypatch.setattr(page_samples, "estimate", lambda *what: seen.append(one.complete()) or real(*what))
    run(one, clock)
    assert seen == [False]


def test_a_content_with_many_copies_is_counted_and_not_sampled(clock: Clock, vms: dict[int, Vm]) -> None:
    """Kept with all its copies or with none, it would make the estimate jump from one seed to the next."""
    for pid in (1, 2):
        vms[pid] = Vm([b"often"] * 400 + [b"%d-%d" % (pid, page) for page in range(400)])
    for _ in range(5):  # seeds
        one = samples(clock)
        one.want(
            {
                f"{pid}": replace(candidate(pid), process=builders.process(pid=pid, rss=8 << 30, ksm_zero=0))
                for pid in (1, 2)
            }
        )
        run(one, clock)
        (group,) = one.newest().groups
        assert one._samples["1"].rate > 8
        assert group.saving == (800 - 4) * PAGE_SIZE


def test_a_large_vm_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_pass, "PART", 512)
    one = PagePass(builders.process(), Recorded(), [Span(0, 2000 * PAGE_SIZE)], 4, PAGE_SIZE)
    phases = []
    while one.phase is not Phase.DONE:
        phases.append(one.phase)
        one.step()
    turns = [after for before, after in pairwise(phases) if before is not after]
    assert turns == [Phase.SECOND, Phase.FIRST] * 3 + [Phase.SECOND]
    assert (one.sample(0).zeros, one.sample(0).zeros_tried) == (2000, 500)


def test_this_process_itself_can_be_looked_at(clock: Clock) -> None:
    """The real mappings of a real process: none of them is a guest's memory, and nothing fails."""
    one = samples(clock)
    one.want({"a": Candidate(process_memory(ROOT, os.getpid()), "p1", True)})
    run(one, clock)
    assert one.newest().vms[0].looked == 0


def test_only_vms_that_ksm_could_merge_are_candidates() -> None:
    domains = [
        builders.domain_observation(uuid="on", facts=builders.facts(project="p1")),
        builders.domain_observation(uuid="off", facts=builders.facts(project="p1")),
        builders.domain_observation(uuid="nobody", facts=builders.facts()),
        builders.domain_observation(uuid="incoming", state=DomainState.INCOMING),
        builders.domain_observation(uuid="paused", state=DomainState.PAUSED),
        builders.domain_observation(uuid="gone", process=None),
        *(
            builders.domain_observation(uuid=name, facts=builders.facts(**{name: True}))
            for name in ("shared_memory", "hugepages", "no_share_pages", "vfio", "confidential")
        ),
    ]
    policies = {one.uuid: effective({Origin.OPERATOR: {"dedup": "off"}}) for one in domains}
    policies["on"] = effective({Origin.OPERATOR: {"dedup": "auto"}})
    found = candidates(domains, policies, PlannerSettings())
    assert {uuid: (one.pool, one.asks, one.alone) for uuid, one in found.items()} == {
        "on": ("p1", True, False),
        "off": ("p1", False, False),
        "nobody": (None, False, True),
    }
    crossing = candidates(domains, policies, PlannerSettings(levers=(MergeSettings(cross_tenant=True),)))
    assert {(one.pool, one.alone) for one in crossing.values()} == {(None, False)}


def test_a_missing_process_is_tried_once_and_others_come_first(clock: Clock, tmp_path: Path) -> None:
    one = PageSamples(KernelRoot(tmp_path), PAGE_SIZE, 50.0, 3600.0, 10.0, KsmPace(), wall=clock, clock=clock)
    one.want({"a": candidate(1)})
    assert one.step() >= 1.0
    assert one.complete()
