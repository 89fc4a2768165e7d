from __future__ import annotations

import os
from pathlib import Path

import pytest

from memhint.agent.nova_files import NovaFiles
from memhint.kernel.root import KernelRoot
from memhint.objects.gap import GapReason
from memhint.objects.provider import NovaCompute

UUID = "2f1b4c9e-5a55-4a53-9d4e-0c6a3d1b7f10"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "var/lib/nova").mkdir(parents=True)
    (tmp_path / "etc/nova").mkdir(parents=True)
    return tmp_path


def files(tree: Path) -> NovaFiles:
    names = ["/etc/nova/nova.conf", "/etc/nova/nova-cpu.conf"]
    return NovaFiles(KernelRoot(tree), "/var/lib/nova/compute_id", names)


def test_a_host_without_nova_is_no_gap(tree: Path) -> None:
    assert files(tree).read() == (None, ())


def test_a_nova_compute_whose_id_is_not_to_be_seen_is_a_gap(tree: Path) -> None:
    (tree / "etc/nova/nova-cpu.conf").write_text("[DEFAULT]\n")
    compute, (gap,) = files(tree).read()
    assert compute is None
    assert (gap.what, gap.reason) == ("nova-compute", GapReason.UNREADABLE)
    assert "/etc/nova/nova-cpu.conf is there, and /var/lib/nova/compute_id is not" in gap.detail
    assert "[nova] compute_id" in gap.detail


def test_a_compute_that_leaves_the_ratio_alone(tree: Path) -> None:
    (tree / "var/lib/nova/compute_id").write_text(UUID.upper() + "\n")
    (tree / "etc/nova/nova.conf").write_text("[DEFAULT]\ncpu_allocation_ratio = 4\n[x]\nram_allocation_ratio = 7\n")
    assert files(tree).read() == (NovaCompute(UUID, None), ())


@pytest.mark.parametrize(("said", "forced"), [("1.25", 1.25), ("0.0", None), ("", None)])
def test_what_nova_compute_would_write(tree: Path, said: str, forced: float | None) -> None:
    (tree / "var/lib/nova/compute_id").write_text(UUID)
    (tree / "etc/nova/nova.conf").write_text(f"[DEFAULT]\nram_allocation_ratio = {said}\n")
    assert files(tree).read() == (NovaCompute(UUID, forced), ())


def test_the_later_file_wins_and_a_change_is_seen(tree: Path) -> None:
    (tree / "var/lib/nova/compute_id").write_text(UUID)
    (tree / "etc/nova/nova.conf").write_text("[DEFAULT]\nram_allocation_ratio = 1.5\n")
    later = tree / "etc/nova/nova-cpu.conf"
    later.write_text("[DEFAULT]\nram_allocation_ratio = 2\n")
    found = files(tree)
    assert found.read()[0] == NovaCompute(UUID, 2.0)
    later.write_text("[DEFAULT]\n")
    os.utime(later, (1, 1))
    assert found.read()[0] == NovaCompute(UUID, 1.5)


def test_a_line_that_is_no_option_is_not_told_to_the_fleet(tree: Path) -> None:
    (tree / "var/lib/nova/compute_id").write_text(UUID)
    (tree / "etc/nova/nova.conf").write_text("[placement]\npassword S3CRET\n")
    _, (gap,) = files(tree).read()
    assert "/etc/nova/nova.conf: line 2: " in gap.detail
    assert "S3CRET" not in gap.detail


def test_what_makes_no_sense_is_a_gap(tree: Path) -> None:
    (tree / "var/lib/nova/compute_id").write_text("not a uuid")
    compute, gaps = files(tree).read()
    assert compute is None
    assert gaps[0].reason is GapReason.MALFORMED
    (tree / "var/lib/nova/compute_id").write_text(UUID)
    (tree / "etc/nova/nova.conf").write_text("[DEFAULT]\nram_allocation_ratio = lots\n")
    compute, gaps = files(tree).read()
    assert compute == NovaCompute(UUID, None)
    assert "lots" in gaps[0].detail
