"""The cgroup levers where cgroup v2 really is: in a virtual host with a stock kernel, a swap disk and one on dm-crypt.

Processes stand for QEMU, in the tree that libvirt and systemd make; one test has a real QEMU with a guest of a few
instructions. What is done inside is in inside_cgroup2.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.sizes import MIB
from lab.tiny_guest import tiny_guest
from lab.virtual_host import VirtualHost

SIZE = 16 * MIB
# A share of time that a VM which uses all of its memory reaches on any machine, however slow
SENSITIVE = {"psi_stop": 0.5, "window": 2.0, "patience": 90.0}
QEMU_SIZE = 64 * MIB
GUARANTEED = str(SIZE + 16 * MIB)  # with the overhead that inside_cgroup2 adds


class Inside:
    """The functions of inside_cgroup2, called from here."""

    def __init__(self, host: VirtualHost) -> None:
        self.host = host

    def __getattr__(self, name: str):
        return lambda **arguments: self.host.call(f"inside_cgroup2.{name}", **arguments)


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    code = Path(__file__).with_name("inside_cgroup2.py")
    disks = {"plain": 512 * MIB, "encrypted": 160 * MIB}
    guest = tiny_guest(tmp_path_factory.mktemp("guest"), QEMU_SIZE)
    with VirtualHost([code, guest], memory=576 * MIB, disks=disks, qemu=True) as host:
        inside = Inside(host)
        inside.set_up()
        yield inside
        trouble = [line for line in host.console.splitlines() if "Out of memory" in line or "Oops" in line]
        assert not trouble


@pytest.fixture
def plain_swap(inside: Inside) -> Iterator[None]:
    inside.swap_on(encrypted=False)
    yield
    inside.swap_off(encrypted=False)


@pytest.fixture
def encrypted_swap(inside: Inside) -> Iterator[None]:
    inside.swap_on(encrypted=True)
    yield
    inside.swap_off(encrypted=True)


def test_memory_min_keeps_a_guaranteed_vm_while_another_is_swapped_out(inside: Inside, plain_swap: None) -> None:
    seen = inside.under_pressure(open_swap=True, taken="lead", enough=12 * MIB)
    assert seen["told"]["gold"]["answer"] == "applied"
    assert seen["lead"] >= 12 * MIB
    assert seen["gold"] == 0


@pytest.mark.parametrize("level", ["slice", "scope"])
def test_memory_min_holds_only_with_every_level_above(inside: Inside, plain_swap: None, level: str) -> None:
    seen = inside.under_pressure(open_swap=True, taken="gold", enough=4 * MIB, without=level)
    assert seen["gold"] >= 4 * MIB


def test_swap_max_alone_keeps_a_guaranteed_vm_out_of_swap(inside: Inside, plain_swap: None) -> None:
    seen = inside.under_pressure(open_swap=False, taken="lead", enough=12 * MIB, without="all")
    assert seen["lead"] >= 12 * MIB
    assert seen["gold"] == 0


def test_classes_are_set_up_the_path_and_undone_to_what_was_there(inside: Inside) -> None:
    seen = inside.back_and_forth(own_min=8 * MIB)
    assert {one["answer"] for one in seen["told"].values()} == {"applied"}
    assert {one["observed"] for one in seen["told"].values()} == {"on"}
    during = seen["during"]
    for name in ("gold", "silver"):
        assert during[f"{name} memory.min"] == during[f"{name} libvirt/memory.min"] == GUARANTEED
        assert during[f"{name} libvirt/memory.swap.max"] == "0"
        assert during[f"{name} oom_score_adj"] == "-500"
    assert during["machine.slice/memory.min"] == str(2 * int(GUARANTEED))
    assert during["rest oom_score_adj"] == "600"
    assert {one["answer"] for one in seen["again"].values()} == {"unchanged"}
    assert seen["one_left"]["machine.slice/memory.min"] == GUARANTEED
    assert seen["one_left"]["silver libvirt/memory.swap.max"] == "max"
    assert seen["undone"] == "applied"
    assert seen["after"] == seen["before"]
    assert seen["marks"] == 0


def test_what_somebody_else_set_meanwhile_is_a_conflict_and_stays(inside: Inside) -> None:
    seen = inside.undo_after_somebody_else()
    assert seen["told"]["answer"] == seen["undone"] == "conflict"
    assert seen["after"]["gold libvirt/memory.min"] == str(20 * MIB)
    assert seen["after"]["gold libvirt/memory.swap.max"] == "max"
    assert seen["after"]["machine.slice/memory.min"] == "0"
    assert seen["marks"] == 0


def test_marks_end_with_the_process(inside: Inside) -> None:
    seen = inside.outlived()
    assert seen["marks"] == 0
    assert seen["after"]["machine.slice/memory.min"] == "0"


def test_cold_memory_goes_to_swap_as_much_as_was_asked(inside: Inside, encrypted_swap: None) -> None:
    assert "/dev/mapper/swap" in inside.swaps()
    seen = inside.swap_out(hot=False, size=96 * MIB, ask=64 * MIB, patience=90.0)
    assert seen["answer"] == "applied", seen["detail"]
    assert seen["asked"] == 64 * MIB
    assert seen["reclaimed"] >= 60 * MIB
    moved = seen["memory_before"] - seen["memory_after"]
    assert abs(moved - seen["reclaimed"]) <= 2 * MIB  # each CPU charges some pages ahead
    assert seen["in_swap"] >= 60 * MIB
    assert seen["idle_in_swap"] == 0
    assert seen["stalled"]["idle"] == 0


def test_swap_in_the_clear_is_refused_and_nothing_moves(inside: Inside, plain_swap: None) -> None:
    seen = inside.swap_out(hot=False, size=32 * MIB, ask=16 * MIB)
    assert (seen["answer"], seen["reason"]) == ("refused", "not_encrypted")
    assert seen["in_swap"] == 0


def test_swap_in_the_clear_may_be_allowed(inside: Inside, plain_swap: None) -> None:
    seen = inside.swap_out(hot=False, size=32 * MIB, ask=16 * MIB, allow_unencrypted=True, patience=90.0)
    assert seen["answer"] == "applied", seen["detail"]
    assert seen["in_swap"] >= 15 * MIB


def test_a_vm_that_uses_all_of_its_memory_is_left_alone(inside: Inside, encrypted_swap: None) -> None:
    seen = inside.swap_out(hot=True, size=SIZE, ask=SIZE)
    # of its own program's memory some pages may rest
    assert seen["swapped"] <= SIZE // 100, seen["detail"]


def test_a_vm_that_uses_its_memory_ends_the_pull_by_its_own_pressure(inside: Inside, plain_swap: None) -> None:
    size = 96 * MIB
    options = {**SENSITIVE, "allow_unencrypted": True, "piece": 4 * MIB, "tried": False}
    seen = inside.swap_out(hot=True, size=size, ask=size, **options)
    assert (seen["answer"], seen["reason"]) == ("refused", "stalls"), seen["detail"]
    assert 0 < seen["asked"] < size
    assert seen["stalled"]["vm"] > 0
    assert seen["stalled"]["idle"] == 0


PATIENT = {"psi_stop": 90.0, "patience": 90.0}  # that QEMU's own threads wait on a slow machine is not what is tried
USED = {"size": 64 * MIB, "used": 4915, "generations": True, **PATIENT}  # 30 % of its pages, ten times a second


def test_all_at_once_the_kernel_takes_what_a_vm_uses(inside: Inside, encrypted_swap: None) -> None:
    seen = inside.used_in_swap(spread=False, takes=1, tried=False, **USED)
    print(f"\n{seen['in_swap']} of {seen['pages']} pages in use went to swap")
    assert seen["lru_gen"] & 1
    assert seen["in_swap"] >= seen["pages"] // 5


@pytest.mark.parametrize("spread", [False, True])
def test_what_a_vm_uses_stays_and_what_rests_goes(inside: Inside, encrypted_swap: None, spread: bool) -> None:
    seen = inside.used_in_swap(spread=spread, takes=2, **USED)
    print(f"\n{seen['in_swap']} of {seen['pages']} pages in use went to swap; {seen['said']}")
    assert seen["lru_gen"] & 1
    assert seen["in_swap"] <= seen["pages"] // 100
    assert sum(seen["swapped"]) >= 0.8 * (64 * MIB - 4915 * 4096)


@pytest.mark.parametrize("spread", [False, True])
def test_of_a_vm_of_which_nobody_can_tell_what_it_uses_little_is_taken_at_a_time(
    inside: Inside, encrypted_swap: None, spread: bool
) -> None:
    seen = inside.used_in_swap(spread=spread, takes=40, kvm=True, piece=MIB, **USED)
    print(f"\n{seen['in_swap']} of {seen['pages']} pages in use were in swap at the end; {seen['said']}")
    # of a take that found nothing at rest any more some is still on its way back; all at once, nearly all went
    assert seen["in_swap"] <= seen["pages"] // 4


def test_on_a_calm_host_what_rests_is_put_away_and_what_is_used_is_not(inside: Inside, encrypted_swap: None) -> None:
    seen = inside.put_away(size=64 * MIB, used=4915, goal=0.45, seconds=300.0)
    print(f"\n{seen}")
    assert seen["resident"] <= 0.45
    # of what it uses at most 1 %, in swap or back from it
    assert seen["in_swap"] + seen["back"] <= seen["pages"] // 100


def test_a_vm_that_wakes_waits_for_its_disk_a_few_times_and_not_for_each_page(inside: Inside, plain_swap: None) -> None:
    # It works on its pages: one that only runs through them may be ahead of who reads for it, and is spared nothing.
    seen = inside.wakes(size=48 * MIB, rounds=1, work=12)
    print(f"\n{seen}")
    # the kernel reads eight pages at a time
    assert seen["swap_faults"][0] >= 40 * MIB // (8 * 4096)
    assert seen["ahead_faults"][0] <= seen["swap_faults"][0] / 2
    assert seen["read"][0] >= 24 * MIB
    # some blocks the VM has used before it could be spared the faults
    assert seen["mapped"][0] >= seen["read"][0] / 4


def test_a_real_qemu_has_its_class_and_its_guest_outlives_being_swapped_out(
    inside: Inside, encrypted_swap: None
) -> None:
    seen = inside.real_qemu(size=QEMU_SIZE, ask=48 * MIB)
    assert "/libvirt/emulator" in seen["cgroups"]
    guaranteed = seen["classes"]["guaranteed"]
    assert (guaranteed["told"]["answer"], guaranteed["told"]["observed"]) == ("applied", "on")
    assert guaranteed["settings"]["vm libvirt/memory.min"] == str(QEMU_SIZE + 16 * MIB)
    assert seen["classes"]["best-effort"]["settings"]["vm oom_score_adj"] == "500"
    assert seen["classes"]["burstable"]["settings"] == seen["before"]
    assert seen["answer"] == "applied", seen["detail"]
    assert seen["out"]["swap"] >= 40 * MIB
    # what the guest touched is in memory again
    assert seen["back"]["rss"] >= QEMU_SIZE
    assert seen["back"]["swap"] < seen["out"]["swap"] - 30 * MIB
