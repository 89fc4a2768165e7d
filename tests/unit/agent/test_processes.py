"""Whose process it is, and what is known of it while its mmap lock is held."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.waiting import wait_for
from memhint.agent.processes import Processes, _since
from memhint.agent.waiting_reads import AT_ONCE, WAIT, WaitingReads
from memhint.objects.gap import GapReason
from memhint.objects.report import Report
from memhint.objects.units import GIB, KIB
from tests.unit import builders
from tests.unit.agent.fake_host import WAIT_S, FakeHost
from tests.unit.agent.mmap_lock import MmapLocks
from tests.unit.kernel import recorded
from tests.unit.kernel.fake_root import FakeRoot

NAMES = {"uuid-web": "web", "uuid-db": "db"}
WEB, DB = 4711, 4712
PAGE = 4096
SHORT = 1.0  # seconds for which what hangs is waited for: the others have come by then


def ksm_stat(zero: int) -> str:
    return f"ksm_rmap_items 900\nksm_zero_pages {zero}\nksm_merging_pages 500\n"


def status(rss: int) -> str:
    return recorded.STATUS.replace("1300004 kB", f"{rss // KIB} kB")


class Host:
    def __init__(self, path: Path) -> None:
        self.root = FakeRoot(path / "root")
        self.run = path / "run"
        self.run.mkdir()
        for number, (uuid, name) in enumerate(NAMES.items()):
            self.add(uuid, name, WEB + number)
        self.processes = self.made()

    def add(self, uuid: str, name: str, pid: int) -> None:
        (self.run / f"{name}.pid").write_text(str(pid))
        self.root.process(pid, cmdline=f"/usr/bin/qemu\0-uuid\0{uuid}\0")

    def made(self, wait: float = WAIT_S) -> Processes:
        return Processes(self.root.kernel, self.run, PAGE, wait)

    def hurry(self, wait: float = SHORT) -> None:
        """From now on it does not wait as long as a test may."""
        self.processes._waiting._wait = wait

    def read(self, names=NAMES, most=None):
        return self.processes.read(names, most or {})


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch) -> MmapLocks:
    return MmapLocks(monkeypatch)


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "waiting-reads"]


def test_a_process_is_found_by_its_pid_file_and_known_again(host: Host) -> None:
    found, gaps = host.read()
    assert {uuid: one.pid for uuid, one in found.items()} == {"uuid-web": WEB, "uuid-db": DB}
    assert not gaps
    (host.run / "web.pid").unlink()  # known by now: neither file is needed again
    host.root.remove(f"proc/{WEB}/cmdline")
    assert host.read() == (found, gaps)


def test_a_pid_that_is_another_process_by_now_is_not_the_vm(host: Host) -> None:
    host.root.write(f"proc/{WEB}/cmdline", "/usr/bin/qemu\0-uuid\0someone-else\0")
    found, gaps = host.read()
    assert set(found) == {"uuid-db"}
    assert gaps["uuid-web"].reason is GapReason.GONE
    host.add("uuid-web", "web", 4800)  # the file is looked at again until it names the VM's own
    assert host.read()[0]["uuid-web"].pid == 4800


def test_a_reused_pid_is_noticed_by_its_start(host: Host) -> None:
    start = host.read()[0]["uuid-web"].start_ticks
    stat = host.root.text(f"proc/{WEB}/stat").replace(str(start), str(start + 5))
    host.root.write(f"proc/{WEB}/stat", stat).write(f"proc/{WEB}/cmdline", "sleep\0")
    assert set(host.read()[0]) == {"uuid-db"}


def test_a_process_is_read_with_its_partition_where_the_kernel_has_them(host: Host) -> None:
    assert host.read()[0]["uuid-web"].ksm_partition is None
    host.root.write("proc/self/ksm_partition", "0\n")
    for pid in (WEB, DB):
        host.root.write(f"proc/{pid}/ksm_partition", "9\n")
    assert host.made().read(NAMES, {})[0]["uuid-web"].ksm_partition == 9


def test_a_vm_without_a_pid_file_is_a_gap(host: Host) -> None:
    found, gaps = host.read({"uuid-old": "old"})
    assert (found, [one.what for one in gaps.values()]) == ({}, ["process"])


def test_a_vm_whose_mmap_lock_is_held_keeps_its_counters_and_holds_nobody_up(host: Host, locks: MmapLocks) -> None:
    before = host.read()[0]["uuid-web"]
    assert (before.ksm_zero, before.ksm_merging) == (300 * PAGE, 500 * PAGE)
    host.hurry()
    for pid in (WEB, DB):
        host.root.write(f"proc/{pid}/ksm_stat", ksm_stat(zero=10)).write(f"proc/{pid}/status", status(2 * GIB))
    with locks.held(WEB):
        found, gaps = host.read()
        assert not gaps
        assert found["uuid-db"].ksm_zero == 10 * PAGE
        assert (found["uuid-web"].ksm_zero, found["uuid-web"].ksm_merging) == (before.ksm_zero, before.ksm_merging)
        assert found["uuid-web"].rss == 2 * GIB  # what takes no lock is as new as ever
        assert found["uuid-web"].footprint > before.footprint
    wait_for(lambda: host.read()[0]["uuid-web"].ksm_zero == 10 * PAGE, WAIT_S, "what the counters say now")
    wait_for(lambda: not threads(), WAIT_S, "the threads' end")


def test_a_lock_that_is_held_for_long_is_waited_for_once(host: Host, locks: MmapLocks) -> None:
    before = host.read()[0]
    host.hurry()
    with locks.held(WEB, DB):
        host.read()
        host.processes._waiting._wait = WAIT_S
        began = time.monotonic()
        assert host.read()[0] == before
        assert time.monotonic() - began < WAIT_S / 2
        assert len(locks.asked) == len(set(locks.asked)) + 2  # nothing is asked again of who has not answered yet


def test_of_a_vm_of_which_nothing_is_known_it_is_not_observed(host: Host, locks: MmapLocks) -> None:
    host.hurry(SHORT / 5)
    with locks.held(WEB):
        for _ in range(2):
            found, gaps = host.read()
            assert set(found) == {"uuid-db"}
            assert gaps["uuid-web"].reason is GapReason.TIMEOUT
    wait_for(lambda: len(host.read()[0]) == 2, WAIT_S, "the VM")


def test_many_that_hang_have_few_threads_and_those_behind_them_their_turn(host: Host, locks: MmapLocks) -> None:
    names = {f"uuid-{number}": f"vm-{number}" for number in range(AT_ONCE + 3)}
    for number, (uuid, name) in enumerate(names.items()):
        host.add(uuid, name, 5000 + number)
    before = host.read(names)
    host.hurry()
    with locks.held(*range(5000, 5000 + AT_ONCE + 2)):
        for _ in range(3):
            assert host.read(names) == before
            assert len(threads()) == AT_ONCE
    host.root.write(f"proc/{5000 + AT_ONCE + 2}/ksm_stat", ksm_stat(zero=10))
    wait_for(lambda: host.read(names)[0][f"uuid-{AT_ONCE + 2}"].ksm_zero == 10 * PAGE, WAIT_S, "the last one")


def test_a_vm_that_ended_leaves_nothing_and_begins_anew(host: Host, locks: MmapLocks) -> None:
    host.read()
    host.hurry()
    with locks.held(WEB):
        host.read()
        host.read({})
        assert not host.processes._waiting._newest
        assert not host.processes._known
        host.add("uuid-web", "web", 4800)
        assert host.read()[0]["uuid-web"].pid == 4800
    wait_for(lambda: not threads(), WAIT_S, "the threads' end")  # the late answer is nobody's
    assert {pid for (_, pid) in host.processes._waiting._newest} == {"4800:91971", f"{DB}:91971"}


def test_another_configuration_goes_on_with_what_is_known(host: Host, locks: MmapLocks) -> None:
    before = host.read()
    host.hurry()
    with locks.held(WEB):
        host.read()
        after = host.made()
        after.inherit(host.processes)
        assert after.read(NAMES, {}) == before
        assert len(threads()) == 1


@given(*[st.integers(0, 1 << 40)] * 4, st.none() | st.integers(0, 1 << 40))
def test_a_footprint_with_counters_of_before_is_not_too_small(
    had: int, zero: int, holds: int, moved: int, most: int | None
) -> None:
    before = builders.process(rss=had, swap=0, ksm_zero=zero)
    found = _since(before, builders.process(rss=holds, swap=0, ksm_zero=None), most)
    assert found.footprint >= before.footprint
    # all that was in the zero page still is, or some of it came to be held, or of what was held came to be there
    moved = min(moved, zero)
    assert _since(before, builders.process(rss=had + moved, swap=0), most).footprint >= had + zero
    moved = min(moved, had)
    assert _since(before, builders.process(rss=had - moved, swap=0), most).footprint >= had + zero
    if most is not None:
        assert found.footprint <= max(most, before.footprint, holds)


def test_a_kernel_that_does_not_tell_of_zero_pages_says_nothing_of_them_later() -> None:
    before = builders.process(rss=2 * GIB, ksm_zero=None)
    assert _since(before, builders.process(rss=GIB), None).ksm_zero is None


def footprints(report: Report) -> dict[str, int]:
    seen = [one.observation for one in report.domains]
    return {one.name: one.process.footprint for one in seen if one.process is not None}


def test_a_cycle_takes_no_mmap_lock_on_its_thread_and_waits_for_none(tmp_path: Path, locks: MmapLocks) -> None:
    host = FakeHost(tmp_path)
    before = footprints(host.run_cycles(3))
    assert set(before) == {"web", "db", "old"}
    host.cycle._parts.observer._processes._waiting._wait = SHORT
    with locks.held(4000):
        began = time.monotonic()
        assert footprints(host.run_cycles(3)) == before
        assert time.monotonic() - began < WAIT_S / 2


def test_a_cycle_waits_well_below_a_second() -> None:
    assert WAIT <= 0.25


def test_a_defect_in_one_read_keeps_no_other_from_being_made(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> int:
        raise ValueError("a defect")

    reads: WaitingReads[str, int] = WaitingReads(WAIT_S)
    for _ in range(2):
        found = reads.read({"a": broken, "b": lambda: 5})
        assert {key: (one.value, one.fresh) for key, one in found.items()} == {"b": (5, True)}
    assert "a defect" in caplog.text


def test_without_a_thread_what_was_known_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: WaitingReads[str, int] = WaitingReads(0.01)

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        assert reads.read({"a": lambda: 1}) == {}
    wait_for(lambda: "a" in reads.read({"a": lambda: 1}), WAIT_S, "the value")
