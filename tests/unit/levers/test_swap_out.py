"""The swap-out lever: only who allows it, only to a disk that hides what it holds, only as long as nobody stalls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.kernel.clearings import Clearings
from memhint.kernel.errors import InterfaceUnreadable, ProcessGone, WriteIncomplete
from memhint.kernel.guest_ram import GuestRam, Span
from memhint.kernel.root import KernelRoot
from memhint.levers.swap_out import SwapOutLever, SwapOutSettings, SwapOutTarget
from memhint.objects.lever import Observed
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from tests.unit import builders
from tests.unit.levers.cgroup_host import TOP, CgroupHost, pressure, swap_line

SETTLE = SwapOutSettings().settle
LUKS = "CRYPT-LUKS2-0123456789abcdef-swap"


class Kernel(KernelRoot):
    """memory.reclaim as the kernel does it: memory falls, swap grows, and threads stall as told."""

    def __init__(self, host: Host) -> None:
        super().__init__(host.root.path)
        self.host = host
        self.pieces: list[int] = []
        self.takes = 1 << 60  # bytes that it finds
        self.stall_us = 0  # of every piece
        self.seconds = 0.5  # of every piece

    def write_text(self, relative: str, text: str) -> None:
        assert relative == f"{self.host.homes['a']}/memory.reclaim"
        self.pieces.append(int(text))
        self.host.now += self.seconds
        taken = min(int(text), self.takes)
        self.takes -= taken
        for name, change in (("memory.current", -taken), ("memory.swap.current", taken)):
            path = f"{self.host.homes['a']}/{name}"
            self.host.root.write(path, f"{int(self.host.text(path)) + change}\n")
        self.host.root.write(f"{self.host.homes['a']}/memory.pressure", pressure(0.0, self.stall_us * len(self.pieces)))
        if taken < int(text):
            raise WriteIncomplete(relative, "Resource temporarily unavailable")


class Guest:
    """A guest's memory that is aged and looked at; what it touches is set by a test."""

    def __init__(self) -> None:
        self.aged = 0
        self.open = 0
        self.ram = GuestRam((Span(0, GIB),), GIB, 0, kvm=False)

    def __enter__(self) -> Guest:
        self.open += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.open -= 1

    def look(self) -> GuestRam:
        return self.ram

    def age(self) -> None:
        self.aged += 1
        self.ram = replace(self.ram, referenced=0)

    def uses(self, referenced: int = 0, **others) -> None:
        self.ram = replace(self.ram, referenced=referenced, **others)


class Host(CgroupHost):
    def __init__(self, path) -> None:
        super().__init__(path)
        self.now = 100.0
        self.stopping = False
        self.vm("a", 11)
        self.dm(0, "swap", LUKS)
        self.swap(swap_line())
        self.kernel = Kernel(self)
        self.guest = Guest()
        self.clearings = Clearings()

    def lever(self, **settings) -> SwapOutLever:
        settings = {"keep_free": GIB, **settings}
        lever = SwapOutLever(
            self.kernel, lambda _: self.guest, self.clearings, SwapOutSettings(**settings), lambda: self.now
        )
        lever.knows(tuple(self.domains.values()))
        return lever

    def target(self, allowed: bool = True, **facts) -> SwapOutTarget:
        domain = self.domains["a"]
        return SwapOutTarget(replace(domain, facts=replace(domain.facts, **facts)), allowed)

    def pull(self, size: int = 64 * MIB, dry_run: bool = False, allowed: bool = True, **settings):
        """A take, once the guest was given its time."""
        lever = self.lever(**settings)
        outcome = self.take(lever, size, dry_run=dry_run, allowed=allowed)
        if outcome.verdict.answer is Answer.PENDING and self.guest.aged:
            self.now += SETTLE
            outcome = self.take(lever, size)
        return outcome

    def take(self, lever: SwapOutLever, size: int, dry_run: bool = False, allowed: bool = True):
        outcome = lever.take(self.target(allowed), size, dry_run=dry_run, stop=lambda: self.stopping)
        assert not self.guest.open
        return outcome

    def refused(self, reason: Reason, **settings) -> str:
        outcome = self.pull(**settings)
        assert outcome.verdict.reason is reason
        assert not self.kernel.pieces
        assert (outcome.asked, outcome.reclaimed, outcome.swapped) == (0, 0, 0)
        assert self.lever(**settings).probe(self.target()).reason is reason
        return outcome.verdict.detail


@pytest.fixture
def host(tmp_path) -> Host:
    return Host(tmp_path)


def test_what_was_asked_goes_out_in_pieces_and_is_told(host: Host) -> None:
    outcome = host.pull(40 * MIB)
    assert host.kernel.pieces == [16 * MIB, 16 * MIB, 8 * MIB]
    assert outcome.verdict.answer is Answer.APPLIED
    assert (outcome.asked, outcome.reclaimed, outcome.swapped) == (40 * MIB,) * 3
    assert "40 MiB came back" in outcome.verdict.detail


def test_nothing_is_left_to_undo_and_it_says_so(host: Host) -> None:
    policy = effective({Origin.OPERATOR: {"swap_out": "allow"}})
    verdict = host.lever().pull(host.target().domain, policy, None, dry_run=False, stop=lambda: False)
    assert not host.lever().owned()
    assert verdict.answer is Answer.UNCHANGED
    assert "when the guest touches it" in verdict.detail


def test_only_who_allows_it(host: Host) -> None:
    outcome = host.pull(allowed=False)
    assert outcome.verdict.reason is Reason.OPT_OUT
    assert not host.kernel.pieces


def test_a_dry_run_moves_nothing(host: Host) -> None:
    planned = host.pull(dry_run=True).verdict
    assert planned.answer is Answer.PLANNED
    assert "huge pages" in planned.detail
    assert not host.kernel.pieces


def test_one_pull_is_bounded(host: Host) -> None:
    assert host.pull(GIB, most=32 * MIB).asked == 32 * MIB


def test_swap_space_is_left_for_others(host: Host) -> None:
    host.swap(swap_line(size=2 * GIB, used=GIB - 24 * MIB))
    assert host.pull(GIB).asked == 24 * MIB
    host.swap(swap_line(size=2 * GIB, used=GIB))
    host.kernel.pieces.clear()
    host.refused(Reason.NO_SWAP)


@pytest.mark.parametrize("level", ["own", "slice"])
def test_a_swap_limit_of_the_vm_or_above_it_bounds_a_pull(host: Host, level: str) -> None:
    path = host.homes["a"] if level == "own" else f"{TOP}/machine.slice"
    host.root.write(f"{path}/memory.swap.max", f"{20 * MIB}\n")
    assert host.pull(GIB).asked == 20 * MIB


def test_a_guaranteed_vm_has_no_swap(host: Host) -> None:
    host.root.write(f"{host.homes['a']}/memory.swap.max", "0\n")
    host.refused(Reason.NO_SWAP)


def test_zswap_is_memory_itself(host: Host) -> None:
    host.root.write("sys/module/zswap/parameters/enabled", "Y\n")
    assert "zswap" in host.refused(Reason.NO_SWAP)
    host.root.write(f"{host.homes['a']}/memory.zswap.max", "0\n")
    assert host.pull(GIB).verdict.answer is Answer.APPLIED


def test_a_vm_that_stalls_already_is_left_alone(host: Host) -> None:
    host.root.write(f"{host.homes['a']}/memory.pressure", pressure(12.0, 5_000_000))
    host.refused(Reason.STALLS)


def test_a_vm_that_begins_to_stall_ends_the_pull(host: Host) -> None:
    host.kernel.stall_us = 400_000
    outcome = host.pull(160 * MIB)
    # three pieces stall for 1.2 s of the 10 s that a pull is judged over
    assert len(host.kernel.pieces) == 3
    assert (outcome.verdict.answer, outcome.verdict.reason) == (Answer.REFUSED, Reason.STALLS)
    assert outcome.reclaimed == 48 * MIB


def test_a_stall_below_the_bound_does_not_end_it(host: Host) -> None:
    host.kernel.stall_us = 40_000
    assert host.pull(160 * MIB).asked == 160 * MIB


def test_what_stalled_before_the_pull_is_not_counted(host: Host) -> None:
    host.root.write(f"{host.homes['a']}/memory.pressure", pressure(0.0, 90_000_000))
    assert host.pull(32 * MIB).verdict.answer is Answer.APPLIED


def test_it_ends_where_the_kernel_finds_no_more(host: Host) -> None:
    host.kernel.takes = 20 * MIB
    outcome = host.pull(64 * MIB)
    assert host.kernel.pieces == [16 * MIB, 16 * MIB]
    assert (outcome.verdict.answer, outcome.reclaimed) == (Answer.APPLIED, 20 * MIB)
    assert "no more to take" in outcome.verdict.detail


def test_nothing_taken_is_no_success(host: Host) -> None:
    host.kernel.takes = 0
    assert host.pull().verdict.answer is Answer.UNCHANGED


def test_it_ends_with_its_patience_and_when_told(host: Host) -> None:
    host.kernel.seconds = 20.0
    assert len(host.kernel.pieces) == 0
    host.pull(GIB)
    assert len(host.kernel.pieces) == 2
    host.stopping = True
    host.kernel.pieces.clear()
    host.kernel.seconds = 0.1
    host.pull(GIB)
    assert len(host.kernel.pieces) == 1


@pytest.mark.parametrize(
    ("areas", "reason"),
    [
        ((), Reason.NO_SWAP),
        ((swap_line("/dev/zram0", priority=100),), Reason.NO_SWAP),
        ((swap_line("/dev/zram0", priority=100), swap_line(priority=-2)), Reason.NO_SWAP),
        ((swap_line("/dev/zram0", priority=-3), swap_line(priority=-2)), Reason.NONE),
        ((swap_line("/dev/zram0", size=GIB, used=GIB, priority=100), swap_line()), Reason.NONE),
        ((swap_line("/dev/vda2"),), Reason.NOT_ENCRYPTED),
        ((swap_line(), swap_line("/dev/vda2", priority=-3)), Reason.NOT_ENCRYPTED),
        ((swap_line("/dev/vda2", size=GIB, used=GIB), swap_line()), Reason.NONE),
    ],
)
def test_it_swaps_to_encrypted_disks_with_room_only(host: Host, areas: tuple[str, ...], reason: Reason) -> None:
    host.swap(*areas)
    assert host.lever().probe(host.target()).reason is reason


def test_an_operator_may_allow_swap_in_the_clear(host: Host) -> None:
    host.swap(swap_line("/dev/vda2"))
    assert "[swap_out] allow_unencrypted" in host.refused(Reason.NOT_ENCRYPTED)
    assert host.pull(allow_unencrypted=True).verdict.answer is Answer.APPLIED


@pytest.mark.parametrize("fact", ["locked", "vfio", "confidential", "hugepages", "shared_memory", "file_backed"])
def test_memory_that_cannot_be_swapped_or_watched_is_unsupported(host: Host, fact: str) -> None:
    assert host.lever().probe(host.target(**{fact: True})).reason is Reason.DEVICE


@pytest.mark.parametrize("missing", ["memory.reclaim", "memory.pressure", "memory.swap.current"])
def test_a_kernel_without_a_file_is_unsupported(host: Host, missing: str) -> None:
    host.root.remove(f"{host.homes['a']}/{missing}")
    outcome = host.pull()
    assert (outcome.verdict.answer, outcome.verdict.reason) == (Answer.UNSUPPORTED, Reason.KERNEL)
    assert not host.kernel.pieces


def test_version_1_is_unsupported(host: Host) -> None:
    host.root.write("proc/self/mounts", "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
    host.root.write("sys/fs/cgroup/memory/machine/a/memory.limit_in_bytes", "9223372036854771712\n")
    host.root.write("proc/11/cgroup", "4:memory:/machine/a\n0::/machine/a\n")
    policy = effective({Origin.OPERATOR: {"swap_out": "allow"}})
    state = host.lever().state(host.target().domain, policy, None, None)
    assert (state.verdict.answer, state.observed) == (Answer.UNSUPPORTED, Observed.UNSUPPORTED)


def test_a_cgroup_that_is_not_the_vms_own_is_unsupported(host: Host) -> None:
    host.cgroup(f"{TOP}/system.slice/libvirtd.service", "11\n")
    host.root.write("proc/11/cgroup", "0::/system.slice/libvirtd.service\n")
    host.refused(Reason.SHARED_CGROUP)


@pytest.mark.parametrize("other", ["qemu-system-x86", "swtpm", None])
def test_a_cgroup_with_another_vm_in_it_is_unsupported_whatever_its_name_and_one_with_helpers_is_not(
    host: Host, other: str | None
) -> None:
    for pid, name in ((11, "qemu-system-x86"), (12, other)):  # the last one has ended meanwhile
        if name is not None:
            host.root.write(f"proc/{pid}/comm", f"{name}\n")
    host.root.write(f"{host.homes['a'].removeprefix('/')}/cgroup.procs", "11\n12\n")
    if other == "qemu-system-x86":
        assert "which it shares" in host.refused(Reason.SHARED_CGROUP)
    else:
        assert host.pull(40 * MIB).verdict.answer is Answer.APPLIED


@pytest.mark.parametrize("name", ["qemu:b", "qemu-system-aar"])
def test_a_vm_whose_qemu_has_another_name_is_another_vm_all_the_same(host: Host, name: str) -> None:
    """As with libvirt's ``set_process_name``, or where one of them is of another architecture."""
    host.vm("b", 12)
    for pid, comm in ((11, "qemu:a"), (12, name)):
        host.root.write(f"proc/{pid}/comm", f"{comm}\n")
    assert host.pull(40 * MIB).verdict.answer is Answer.APPLIED, "each has a cgroup of its own"
    host.kernel.pieces.clear()
    host.root.write(f"{host.homes['a'].removeprefix('/')}/cgroup.procs", "11\n12\n")
    host.refused(Reason.SHARED_CGROUP)


def test_a_process_that_ended_is_not_running(host: Host) -> None:
    host.root.remove("proc/11/cgroup").remove("proc/11/stat").remove("proc/11/oom_score_adj")
    (host.root.path / "proc/11").rmdir()
    assert host.pull().verdict.reason is Reason.NOT_RUNNING


def test_what_is_seen_is_whether_a_part_is_in_swap(host: Host) -> None:
    lever = host.lever()
    for swap, seen in ((0, Observed.OFF), (MIB, Observed.ON)):
        domain = replace(host.domains["a"], process=builders.process(swap=swap))
        assert lever.read(domain) is seen
    assert lever.read(replace(host.domains["a"], process=None)) is Observed.UNKNOWN


def test_a_guest_touches_what_it_uses_before_anything_is_taken_and_nobody_waits(host: Host) -> None:
    lever = host.lever()
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert (host.guest.aged, host.kernel.pieces) == (1, [])
    host.now += SETTLE - 0.5
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert (host.guest.aged, host.kernel.pieces) == (1, [])
    host.now += 0.5
    assert host.take(lever, 64 * MIB).asked == 64 * MIB


def test_no_more_is_asked_for_than_the_guest_did_not_touch(host: Host) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += SETTLE
    host.guest.uses(GIB - 24 * MIB)
    assert host.take(lever, 64 * MIB).asked == 21 * MIB  # seven eighths


def test_a_guest_that_uses_all_of_its_memory_is_left_alone(host: Host) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += SETTLE
    host.guest.uses(GIB)
    verdict = host.take(lever, 64 * MIB).verdict
    assert (verdict.answer, verdict.reason) == (Answer.REFUSED, Reason.IN_USE)
    assert not host.kernel.pieces
    # what it does next is looked at anew
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert host.guest.aged == 2


def test_pulls_that_lie_far_apart_come_to_take_something(host: Host) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += 3600.0
    assert host.take(lever, 64 * MIB).asked == 64 * MIB


@pytest.mark.parametrize("late", [7201.0, 14400.0])
def test_what_was_made_old_long_ago_is_made_old_again(host: Host, late: float) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += late
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert host.guest.aged == 2


def test_bits_that_somebody_else_of_memhint_cleared_begin_the_time_again(host: Host) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += SETTLE - 1
    host.clearings.note(11, host.now)
    host.now += 1
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    host.now += SETTLE - 1
    assert host.take(lever, 64 * MIB).asked == 64 * MIB
    assert host.guest.aged == 1


def test_making_old_is_told_to_who_reads_the_bits(host: Host) -> None:
    host.take(host.lever(), 64 * MIB)
    assert host.clearings.last(11) == host.now


def test_more_is_taken_once_it_is_known_that_little_came_back(host: Host) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += SETTLE
    host.guest.uses(swapped=64 * MIB)
    assert host.take(lever, 64 * MIB).swapped == 64 * MIB
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert host.guest.aged == 1  # what comes back is waited for first
    host.now += SETTLE
    host.guest.uses(swapped=61 * MIB)
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert host.guest.aged == 2
    host.now += SETTLE
    assert host.take(lever, 64 * MIB).swapped == 64 * MIB


def test_a_guest_that_has_back_what_was_taken_is_left_alone_for_a_time(host: Host) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += SETTLE
    host.guest.uses(swapped=64 * MIB)
    host.take(lever, 64 * MIB)
    host.now += SETTLE
    host.guest.uses(swapped=60 * MIB)
    host.kernel.pieces.clear()
    verdict = host.take(lever, 64 * MIB).verdict
    assert (verdict.answer, verdict.reason) == (Answer.REFUSED, Reason.IN_USE)
    host.now += 59
    assert host.take(lever, 64 * MIB).verdict.reason is Reason.IN_USE
    assert (host.guest.aged, host.kernel.pieces) == (1, [])
    host.now += 1
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert host.guest.aged == 2


def test_under_kvm_small_takes_that_stay_out_grow_and_one_that_comes_back_ends_it(host: Host) -> None:
    lever, out = host.lever(), 0
    host.guest.uses(kvm=True, resident=64 * GIB)
    for size in (16, 32, 64, 128, 256, 256):
        out += size * MIB
        host.guest.uses(swapped=out)
        assert host.take(lever, GIB).asked == size * MIB
        assert host.take(lever, GIB).verdict.answer is Answer.PENDING
        host.now += SETTLE
    host.guest.uses(swapped=out - 13 * MIB)  # of 256
    assert host.take(lever, GIB).verdict.reason is Reason.IN_USE
    host.now += 60
    assert host.take(lever, GIB).asked == 16 * MIB
    assert not host.guest.aged


def test_under_kvm_no_more_is_taken_at_once_than_a_small_part_of_the_vm(host: Host) -> None:
    host.guest.uses(kvm=True, resident=256 * MIB)
    assert host.take(host.lever(), GIB).asked == 8 * MIB


def test_under_kvm_no_more_is_taken_than_one_pull_may(host: Host) -> None:
    host.guest.uses(kvm=True)
    assert host.take(host.lever(most=4 * MIB), GIB).asked == 4 * MIB


def test_another_process_is_not_known_by_what_the_one_before_did(host: Host) -> None:
    lever = host.lever()
    host.take(lever, 64 * MIB)
    host.now += SETTLE
    domain = host.domains["a"]
    host.domains["a"] = replace(domain, process=replace(domain.process, start_ticks=111))
    assert host.take(lever, 64 * MIB).verdict.answer is Answer.PENDING
    assert host.guest.aged == 2


def test_a_guest_without_memory_of_its_own_is_unsupported(host: Host) -> None:
    host.guest.ram = GuestRam((), 0, 0, kvm=False)
    verdict = host.take(host.lever(), 64 * MIB).verdict
    assert (verdict.answer, verdict.reason) == (Answer.UNSUPPORTED, Reason.DEVICE)
    assert not host.guest.aged


@pytest.mark.parametrize(
    ("error", "answer"),
    [(ProcessGone("proc/11", "it ended"), Answer.PENDING), (InterfaceUnreadable("proc/11", "no"), Answer.FAILED)],
)
def test_a_guest_that_cannot_be_made_old_is_not_taken_from(host: Host, error: Exception, answer: Answer) -> None:
    def age() -> None:
        raise error

    host.guest.age = age
    assert host.take(host.lever(), 64 * MIB).verdict.answer is answer
    host.now += SETTLE
    assert host.take(host.lever(), 64 * MIB).verdict.answer is answer
    assert not host.kernel.pieces
