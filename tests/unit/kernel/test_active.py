"""Active memory by accessed bits and by DAMON, over trees of kernel files."""

from __future__ import annotations

import errno
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.memory_ledger import MemoryLedger
from memhint.kernel.clearings import Clearings
from memhint.kernel.damon import BASE, KNOB, Damon, Region, divided
from memhint.kernel.damon_watch import idle_bytes, sampling_error
from memhint.kernel.errors import InterfaceInUse, InterfaceMalformed, InterfaceMissing, WriteRejected
from memhint.kernel.guest_ram import Span
from memhint.kernel.referenced import ReferencedWatch
from memhint.kernel.root import KernelRoot
from memhint.objects.active import Idle, descending
from memhint.objects.ownership import HOST, Mark
from memhint.objects.units import MIB

from . import recorded
from .fake_root import FakeRoot

PID = 4711
BOOT = "boot-1"


@pytest.fixture
def fake(tmp_path: Path) -> FakeRoot:
    return FakeRoot(tmp_path).process(clear_refs="")


def smaps(referenced: int) -> str:
    return recorded.SMAPS.replace("1000000 kB\n", f"1000000 kB\nReferenced: {referenced} kB\n")


def test_each_age_of_a_round_is_read_before_the_next_clearing(fake: FakeRoot) -> None:
    watch = ReferencedWatch(fake.kernel, PID, 60.0, clearings=Clearings(), ages=(10, 60, 600), wall=lambda: 5.0)
    assert watch.step(100.0) == 110.0
    assert fake.text(f"proc/{PID}/clear_refs") == "1"
    fake.process(smaps=smaps(400_000), clear_refs="")
    assert watch.step(110.0) == 160.0
    fake.process(smaps=smaps(700_000), clear_refs="")
    watch.step(160.0)
    assert watch.newest is not None
    assert [(one.age, one.bytes) for one in watch.newest.idle] == [(10, 600_000 * 1024), (60, 300_000 * 1024)]
    assert watch.newest.active == 400_000 * 1024
    assert fake.text(f"proc/{PID}/clear_refs") == ""
    watch.step(160.0)
    assert fake.text(f"proc/{PID}/clear_refs") == "1"


def test_a_round_in_which_others_cleared_the_bits_says_no_more(fake: FakeRoot) -> None:
    clearings = Clearings()
    watch = ReferencedWatch(fake.kernel, PID, 60.0, clearings=clearings, ages=(10, 60), wall=lambda: 5.0)
    watch.step(100.0)
    fake.process(smaps=smaps(400_000), clear_refs="")
    watch.step(110.0)
    clearings.note(PID, 130.0)
    fake.process(smaps=smaps(0))
    assert watch.step(160.0) == 160.0
    assert watch.newest is not None
    assert [(one.age, one.bytes) for one in watch.newest.idle] == [(10, 600_000 * 1024)]
    watch.step(160.0)
    fake.process(smaps=smaps(800_000))
    watch.step(170.0)
    assert [(one.age, one.bytes) for one in watch.newest.idle] == [(10, 200_000 * 1024)]


def test_a_guest_under_kvm_is_refused_and_nothing_is_cleared(fake: FakeRoot) -> None:
    vcpu = "7f0040500000-7f0040503000 rw-s 00000000 00:0f 1067   anon_inode:kvm-vcpu:0\nVmFlags: rd wr sh\n"
    fake.process(smaps=recorded.SMAPS + vcpu)
    with pytest.raises(InterfaceMissing, match="KVM"):
        ReferencedWatch(fake.kernel, PID, 60.0, clearings=Clearings()).step(0.0)
    assert fake.text(f"proc/{PID}/clear_refs") == ""


def test_kdamonds_of_somebody_else_are_not_touched(fake: FakeRoot) -> None:
    fake.write(f"{BASE}/nr_kdamonds", "1\n").write(f"{BASE}/0/state", "off\n")
    ledger = MemoryLedger()
    damon = Damon(fake.kernel, ledger, BOOT, lambda: 0.0)
    with pytest.raises(InterfaceInUse):
        damon.acquire()
    damon.release()
    assert (fake.text(f"{BASE}/nr_kdamonds"), ledger.all()) == ("1\n", ())


@pytest.mark.parametrize(
    ("after", "instance", "mine"),
    [("1 0:4711", BOOT, True), ("1 0:9", BOOT, False), ("2 0:4711", BOOT, False), ("1 0:4711", "boot-0", False)],
)
def test_only_what_the_mark_of_this_boot_names_is_stopped(
    fake: FakeRoot, after: str, instance: str, mine: bool
) -> None:
    fake.write(f"{BASE}/nr_kdamonds", "1\n").write(f"{BASE}/0/state", "on\n")
    fake.write(f"{BASE}/0/contexts/0/targets/0/pid_target", "4711\n")
    ledger = MemoryLedger()
    ledger.put(Mark(HOST, KNOB, "0", after, instance, 0.0))
    Damon(fake.kernel, ledger, BOOT, lambda: 0.0).release()
    assert fake.text(f"{BASE}/0/state") == ("off" if mine else "on\n")
    assert fake.text(f"{BASE}/nr_kdamonds") == ("0" if mine else "1\n")


def watched(fake: FakeRoot, target: int = PID) -> Damon:
    """DAMON that watches a process in its first slot."""
    fake.write(f"{BASE}/0/contexts/0/targets/0/pid_target", f"{target}\n").write(f"{BASE}/0/state", "on\n")
    damon = Damon(fake.kernel, MemoryLedger(), BOOT, lambda: 0.0)
    damon._targets[0] = PID
    return damon


def test_each_region_is_read_with_its_age(fake: FakeRoot) -> None:
    tried = f"{BASE}/0/contexts/0/schemes/0/tried_regions"
    for name, start in (("0", 8192), ("10", 4096), ("2", 0)):
        texts = {"start": str(start), "end": str(start + 4096), "nr_accesses": name, "age": "7"}
        fake.write_all(f"{tried}/{name}", {file: text + "\n" for file, text in texts.items()})
    fake.write(f"{tried}/total_bytes", "12288\n")
    assert watched(fake).regions(0) == (Region(0, 4096, 2, 7), Region(4096, 8192, 10, 7), Region(8192, 12288, 0, 7))
    assert fake.text(f"{BASE}/0/state") == "update_schemes_tried_regions", "clearing would take another window"


def test_regions_of_a_slot_that_is_somebody_else_s_or_of_an_older_kernel_are_not_read(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceInUse):
        watched(fake, target=9).regions(0)
    with pytest.raises(InterfaceMissing):
        watched(fake).regions(0)
    assert fake.text(f"{BASE}/0/state") == "on\n"


class Busy(KernelRoot):
    """Refuses so many writes of a file as the kernel does while a kdamond is at work."""

    def __init__(self, path: Path, file: str, times: int) -> None:
        super().__init__(path)
        self.file, self.times = file, times

    def write_text(self, relative: str, text: str) -> None:
        if relative.endswith(self.file) and self.times > 0:
            self.times -= 1
            raise WriteRejected(relative, "busy") from OSError(errno.EBUSY, "busy")
        super().write_text(relative, text)


def kdamonds(fake: FakeRoot, count: int) -> None:
    """As the kernel shows them."""
    fake.write(f"{BASE}/nr_kdamonds", f"{count}\n")
    for slot in range(count):
        fake.write(f"{BASE}/{slot}/state", "off\n")
        fake.write(f"{BASE}/{slot}/contexts/nr_contexts", "0\n")
        context = f"{BASE}/{slot}/contexts/0"
        fake.write(f"{context}/operations", "").write(f"{context}/avail_operations", "vaddr\nfvaddr\n")
        for name in ("sample_us", "aggr_us", "update_us"):
            fake.write(f"{context}/monitoring_attrs/intervals/{name}", "0\n")
        for name in ("min", "max"):
            fake.write(f"{context}/monitoring_attrs/nr_regions/{name}", "0\n")
        fake.write(f"{context}/targets/nr_targets", "0\n")
        fake.write(f"{context}/targets/0/pid_target", "0\n").write(f"{context}/targets/0/regions/nr_regions", "0\n")
        for name in ("start", "end"):
            fake.write(f"{context}/targets/0/regions/0/{name}", "0\n")
        fake.write(f"{context}/schemes/nr_schemes", "0\n")


@pytest.mark.parametrize(("fixed", "divides"), [(False, True), (True, False)])
def test_damon_divides_ranges_once_unless_they_are_to_stay(fake: FakeRoot, fixed: bool, divides: bool) -> None:
    """It divides them while they are no more than half of the most (kdamond_split_regions)."""
    kdamonds(fake, 2)
    fake.write(f"{BASE}/nr_kdamonds", "0\n")
    damon = Damon(fake.kernel, MemoryLedger(), BOOT, lambda: 0.0, slots=2)
    for place in range(4):
        for name in ("start", "end"):
            fake.write(f"{BASE}/0/contexts/0/targets/0/regions/{place}/{name}", "0\n")
    damon.start(PID, [Span(one * 4096, one * 4096 + 4096) for one in range(4)], 1, [], fixed=fixed)
    least, most = (int(fake.text(f"{BASE}/0/contexts/0/monitoring_attrs/nr_regions/{name}")) for name in ("min", "max"))
    assert least == 4
    assert (most // 2 >= 4) == divides
    assert most > 4, "there is room for some that are divided all the same: beyond it they would be joined with loss"


def test_a_kdamond_that_is_at_work_for_a_moment_is_nobody_else_s(fake: FakeRoot) -> None:
    kdamonds(fake, 2)
    ledger = MemoryLedger()
    ledger.put(Mark(HOST, KNOB, "0", "2", BOOT, 0.0))
    rests: list[float] = []
    busy = Busy(fake.path, "aggr_us", 3)
    damon = Damon(busy, ledger, BOOT, lambda: 0.0, slots=2, sleep=rests.append)
    assert damon.start(PID, [Span(0, 4096)], 1, []) == 0
    assert len(rests) == 3
    busy.times = 10**6
    with pytest.raises(InterfaceInUse):
        damon.start(PID, [Span(0, 4096)], 1, [])
    assert sum(rests) < 1.0


def test_what_could_not_be_stopped_keeps_its_slot_and_is_stopped_before_another_one_begins(fake: FakeRoot) -> None:
    kdamonds(fake, 2)
    ledger = MemoryLedger()
    ledger.put(Mark(HOST, KNOB, "0", "2", BOOT, 0.0))
    busy = Busy(fake.path, "0/state", 0)
    damon = Damon(busy, ledger, BOOT, lambda: 0.0, slots=2, sleep=lambda _: None)
    damon.start(PID, [Span(0, 4096)], 1, [])
    busy.times = 10**6
    with pytest.raises(InterfaceInUse):
        damon.stop(0)
    assert damon.start(PID + 1, [Span(0, 4096)], 1, []) == 1
    damon.stop(1)
    busy.times = 0
    assert damon.start(PID + 2, [Span(0, 4096)], 1, []) == 0
    assert fake.text(f"{BASE}/0/contexts/0/targets/0/pid_target") == str(PID + 2)


def test_kdamonds_that_somebody_made_in_place_of_ours_are_not_touched(fake: FakeRoot) -> None:
    kdamonds(fake, 2)
    ledger = MemoryLedger()
    ledger.put(Mark(HOST, KNOB, "0", "2", BOOT, 0.0))
    damon = Damon(fake.kernel, ledger, BOOT, lambda: 0.0, slots=2)
    damon.stop(damon.start(PID, [Span(0, 4096)], 1, []))
    kdamonds(fake, 1)
    with pytest.raises(InterfaceInUse):
        damon.start(PID, [Span(0, 4096)], 1, [])
    assert fake.text(f"{BASE}/0/contexts/0/targets/0/pid_target") == "0\n"


def test_of_what_an_agent_left_behind_its_own_is_stopped_also_beside_somebody_else_s(fake: FakeRoot) -> None:
    kdamonds(fake, 2)
    for slot, target in enumerate((PID, 9)):
        fake.write(f"{BASE}/{slot}/state", "on\n")
        fake.write(f"{BASE}/{slot}/contexts/0/targets/0/pid_target", f"{target}\n")
    ledger = MemoryLedger()
    ledger.put(Mark(HOST, KNOB, "0", f"2 0:{PID}", BOOT, 0.0))
    with pytest.raises(InterfaceInUse):
        Damon(fake.kernel, ledger, BOOT, lambda: 0.0, slots=2).acquire()
    assert [fake.text(f"{BASE}/{slot}/state") for slot in range(2)] == ["off", "on\n"]
    assert fake.text(f"{BASE}/nr_kdamonds") == "2\n"


def test_a_kernel_without_damon_is_unsupported(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        Damon(fake.kernel, MemoryLedger(), BOOT, lambda: 0.0).acquire()


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=5), st.integers(1, 600))
def test_regions_cover_all_and_none_is_larger_than_its_share(pages: list[int], count: int) -> None:
    spans, at = [], 0
    for one in pages:
        spans.append(Span(at, at + one * 4096))
        at += (one + 7) * 4096
    regions = divided(spans, count, 4096)
    assert sum(one.size for one in regions) == sum(pages) * 4096
    assert all(before.end <= after.start for before, after in pairwise(regions))
    assert max(one.size for one in regions) <= -(-sum(pages) // count) * 4096


def test_what_is_not_resident_is_not_idle() -> None:
    assert idle_bytes(40 * MIB, 100 * MIB, 0.75) == 15 * MIB
    assert idle_bytes(5 * MIB, 100 * MIB, 0.75) == 0


def test_samples_that_agree_are_not_taken_for_certain() -> None:
    assert sampling_error(0.0, 300) == 0.01
    assert sampling_error(0.5, 0) == 1.0


def test_nothing_is_idle_for_long_that_is_not_idle_for_less() -> None:
    found = descending((Idle(60, 9, 0.0), Idle(10, 5, 0.0)))
    assert [(one.age, one.bytes) for one in found] == [(10, 5), (60, 5)]


@pytest.mark.parametrize("text", ["", "-1\n", "x\n", "1 2\n"])
def test_a_region_that_makes_no_sense_is_malformed(fake: FakeRoot, text: str) -> None:
    tried = f"{BASE}/0/contexts/0/schemes/0/tried_regions"
    fake.write_all(f"{tried}/0", {"start": "0\n", "end": "4096\n", "nr_accesses": "1\n", "age": text})
    with pytest.raises(InterfaceMalformed):
        watched(fake).regions(0)


def test_a_region_that_goes_while_it_is_read_is_missing(fake: FakeRoot) -> None:
    fake.write_all(f"{BASE}/0/contexts/0/schemes/0/tried_regions/0", {"start": "0\n"})
    with pytest.raises(InterfaceMissing):
        watched(fake).regions(0)
