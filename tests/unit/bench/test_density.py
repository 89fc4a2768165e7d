"""What the density bench works out of what it measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import ksm
from bench.admitted import Admitted
from bench.filled_host import Count
from bench.harness.precondition import PreconditionFailed
from bench.harness.scale import Scale
from bench.resident import Resident, resident
from bench.suite import density
from memhint.objects.units import GIB, MIB

SMAPS = """\
55d0c0000000-55d0c0400000 r-xp 00000000 fe:00 1 /usr/bin/qemu-system-x86_64
Rss:                4096 kB
Pss:                1024 kB
Anonymous:             0 kB
KSM:                   0 kB
55d0c0400000-55d0c0500000 rw-p 00400000 fe:00 1 /usr/bin/qemu-system-x86_64
Rss:                1024 kB
Pss:                1024 kB
Anonymous:          1024 kB
KSM:                   0 kB
7f0000000000-7f0040000000 rw-p 00000000 00:00 0
Rss:               81920 kB
Pss:               40000 kB
Anonymous:         81920 kB
KSM:               51200 kB
VmFlags: rd wr mr mg
7f0050000000-7f0050800000 rwxp 00000000 00:00 0
Rss:                8192 kB
Pss:                8192 kB
Anonymous:          8192 kB
KSM:                   0 kB
"""
PROMISE = Admitted(8, 0, GIB, 1.0, 1.0, 0, 0, GIB, 4 * GIB, 30.0)


def test_what_a_qemu_holds_is_told_apart() -> None:
    assert resident(SMAPS.splitlines(), GIB) == Resident(30 * MIB, 50 * MIB, 9 * MIB, MIB)


def test_what_of_qemu_s_own_is_in_swap_is_told_and_what_of_the_guest_s_is_not() -> None:
    guest, _, own = SMAPS.partition("VmFlags: rd wr mr mg\n")
    swapped = f"{guest}Swap:               7168 kB\nSwapPss:            7168 kB\n{own}Swap:               2048 kB\n"
    found = resident(swapped.splitlines(), GIB)
    assert (found.own, found.own_swapped, found.guest) == (9 * MIB, 2 * MIB, 30 * MIB)


def test_a_guest_that_is_larger_than_any_mapping_has_nothing() -> None:
    found = resident(SMAPS.splitlines(), 2 * GIB)
    assert (found.guest, found.merged) == (0, 0)


def tree(root: Path, **changes: str) -> Path:
    folder = root / "sys/kernel/mm/ksm"
    folder.mkdir(parents=True)
    known = {
        "run": "0",
        "use_zero_pages": "0",
        "advisor_mode": "[none] scan-time",
        "pages_to_scan": "100",
        "sleep_millisecs": "20",
        "full_scans": "7",
    }
    for name, value in (known | changes).items():
        (folder / name).write_text(f"{value}\n")
    return folder


def test_ksm_is_set_and_put_back_also_when_the_body_fails(tmp_path: Path) -> None:
    folder = tree(tmp_path)

    def body() -> None:
        with ksm.scanning(ksm.FLAT_OUT, tmp_path):
            assert ksm.running(tmp_path)
            assert (folder / "pages_to_scan").read_text() == "5000"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    assert not ksm.running(tmp_path)
    found = {name: (folder / name).read_text().strip() for name in ("advisor_mode", "pages_to_scan", "use_zero_pages")}
    assert found == {"advisor_mode": "none", "pages_to_scan": "100", "use_zero_pages": "0"}
    assert ksm.full_scans(tmp_path) == 7


def test_ksm_that_memhint_lets_rest_counts_as_through(tmp_path: Path) -> None:
    folder = tree(tmp_path, run="1")
    assert ksm.running(tmp_path)
    (folder / "sleep_millisecs").write_text("1000\n")
    assert not ksm.running(tmp_path)


def test_a_kernel_without_what_is_to_be_set_is_refused(tmp_path: Path) -> None:
    (tree(tmp_path) / "use_zero_pages").unlink()
    with pytest.raises(PreconditionFailed, match="use_zero_pages"), ksm.scanning(ksm.FLAT_OUT, tmp_path):
        pass


def test_a_machine_without_ksm_neither_runs_nor_scans(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert not ksm.running(tmp_path)
    assert (ksm.full_scans(tmp_path), ksm.ksmd_seconds(tmp_path)) == (0, 0.0)


def test_cpu_time_is_that_of_user_and_system(tmp_path: Path) -> None:
    for pid, name in ((12, "bash"), (36, "ksmd")):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "stat").write_text(f"{pid} (a) b) S 1 1 1 0 -1 4 0 0 0 0 150 {pid}00 0 0 20 0 1 0 5")
    assert ksm.ksmd_seconds(tmp_path) == pytest.approx(37.5)


@pytest.mark.parametrize("scale", [Scale.SHORT, Scale.FULL, Scale.SEED])
def test_a_guest_is_a_third_of_the_budget_and_has_room_for_what_it_takes(scale: Scale) -> None:
    sizes = density.sizes_of(scale)
    assert sizes.budget - 12 * MIB <= 3 * sizes.guest <= sizes.budget
    assert sizes.work % MIB == 0
    assert sizes.work <= sizes.guest * 4 // 5
    assert sizes.guest - sizes.work >= 176 * MIB
    assert density.sizes_of(Scale.SEED).work == 4 * GIB


def counts(guests: int, mine: float, peer: float) -> dict[str, Count]:
    return {
        density.STOCK.name: Count(13),
        density.FLAT_OUT.name: Count(30, ksm_cpu=[peer * number / 30 for number in range(1, 31)]),
        density.MEMHINT.name: Count(guests, ksm_cpu=[mine] * guests, ended=True),
    }


def test_targets_are_held_against_the_arms_of_the_same_run() -> None:
    found = {one.what: one for one in density.targets(counts(41, 30.0, 100.0), PROMISE, Scale.FULL)}
    assert [one.met for one in found.values()] == [True, True, True, True]
    assert found["of KSM's CPU time flat out, for 30 guests"].measured == pytest.approx(0.3)
    missed = density.targets(counts(39, 34.0, 100.0), PROMISE, Scale.FULL)
    assert [one.met for one in missed[:2]] == [False, False]
    small = density.targets(counts(15, 30.0, 100.0), PROMISE, Scale.SHORT)
    assert "of KSM's CPU time flat out, for 15 guests" in [one.what for one in small]
    assert [one.what for one in small[1:]] == [one.what for one in missed[2:]]


def test_a_count_that_was_stopped_is_said_to_be() -> None:
    assert any("stopped at 41 guests" in note for note in density.notes(counts(41, 1, 9), density.sizes_of(Scale.FULL)))


def test_a_small_host_says_that_its_guests_take_less() -> None:
    found = {scale: density.notes(counts(9, 1, 9), density.sizes_of(scale)) for scale in (Scale.SHORT, Scale.FULL)}
    assert any("On so small a host" in note for note in found[Scale.SHORT])
    assert not any("On so small a host" in note for note in found[Scale.FULL])
