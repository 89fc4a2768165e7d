"""Which hierarchy holds the budget, and how its figures are read, on a made-up file tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cgroup import Hierarchies, HostCgroup, detect
from lab.errors import CgroupError


def v1(root: Path) -> str:
    (root / "memory").mkdir()
    return (
        f"tmpfs {root} tmpfs rw 0 0\ncgroup {root}/cpu cgroup rw,cpu 0 0\ncgroup {root}/memory cgroup rw,memory 0 0\n"
    )


def v2(root: Path, controllers: str) -> str:
    (root / "unified").mkdir()
    (root / "unified" / "cgroup.controllers").write_text(controllers)
    return f"cgroup2 {root}/unified cgroup2 rw 0 0\n"


def test_version_1_alone(tmp_path: Path) -> None:
    assert detect(v1(tmp_path)) == Hierarchies(tmp_path / "memory", 1, None)


def test_version_2_alone(tmp_path: Path) -> None:
    unified = tmp_path / "unified"
    assert detect(v2(tmp_path, "cpu memory pids\n")) == Hierarchies(unified, 2, unified)


def test_both_with_the_controller_in_version_1(tmp_path: Path) -> None:
    found = detect(v2(tmp_path, "") + v1(tmp_path))
    assert found == Hierarchies(tmp_path / "memory", 1, tmp_path / "unified")
    cgroup = HostCgroup("x.host-1", found)
    assert cgroup.paths == [tmp_path / "memory/memhint-lab/x.host-1", tmp_path / "unified/memhint-lab/x.host-1"]
    assert cgroup.pressure_path is None
    cgroup.paths[1].mkdir(parents=True)
    (cgroup.paths[1] / "memory.pressure").touch()
    assert cgroup.pressure_path == cgroup.paths[1]


def test_version_2_lists_its_one_directory_once(tmp_path: Path) -> None:
    cgroup = HostCgroup("x.host-1", detect(v2(tmp_path, "memory\n")))
    assert cgroup.paths == [tmp_path / "unified/memhint-lab/x.host-1"]


@pytest.mark.parametrize("mounts", ["", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n"])
def test_no_memory_controller_is_an_error(mounts: str) -> None:
    with pytest.raises(CgroupError, match="memory controller"):
        detect(mounts)


def test_version_2_without_the_controller_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CgroupError, match="memory controller"):
        detect(v2(tmp_path, "cpu\n"))


def test_figures_of_version_1(tmp_path: Path) -> None:
    cgroup = HostCgroup("x", detect(v1(tmp_path)))
    cgroup.memory_path.mkdir(parents=True)
    (cgroup.memory_path / "memory.usage_in_bytes").write_text("12288\n")
    (cgroup.memory_path / "memory.limit_in_bytes").write_text("1073741824\n")
    (cgroup.memory_path / "memory.stat").write_text("swap 4096\ntotal_swap 8192\n")
    (cgroup.memory_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert (cgroup.usage(), cgroup.limit(), cgroup.swap_used(), cgroup.oom_kills()) == (12288, 1 << 30, 8192, 3)


def test_figures_of_version_2(tmp_path: Path) -> None:
    cgroup = HostCgroup("x", detect(v2(tmp_path, "memory\n")))
    cgroup.memory_path.mkdir(parents=True)
    (cgroup.memory_path / "memory.current").write_text("12288\n")
    (cgroup.memory_path / "memory.max").write_text("max\n")
    (cgroup.memory_path / "memory.swap.current").write_text("8192\n")
    (cgroup.memory_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 2\noom_kill 3\n")
    assert (cgroup.usage(), cgroup.swap_used(), cgroup.oom_kills()) == (12288, 8192, 3)
    assert cgroup.limit() > 1 << 60


def test_what_is_in_use_is_in_memory_or_in_swap_and_no_file(tmp_path: Path) -> None:
    for name in "12":
        (tmp_path / name).mkdir()
    old = HostCgroup("x", detect(v1(tmp_path / "1")))
    old.memory_path.mkdir(parents=True)
    (old.memory_path / "memory.usage_in_bytes").write_text("100000\n")
    rows = "active_file 1\ninactive_file 2\nswapcached 300\n"
    rows += "total_active_file 1000\ntotal_inactive_file 2000\ntotal_swap 8000\ntotal_swapcached 300\n"
    (old.memory_path / "memory.stat").write_text(rows)
    assert old.in_use() == 100000 - 3000 + 8000

    new = HostCgroup("x", detect(v2(tmp_path / "2", "memory\n")))
    new.memory_path.mkdir(parents=True)
    (new.memory_path / "memory.current").write_text("100000\n")
    (new.memory_path / "memory.swap.current").write_text("8000\n")
    (new.memory_path / "memory.stat").write_text("active_file 1000\ninactive_file 2000\nswapcached 300\n")
    assert new.in_use() == 100000 - 3000 + 8000 - 300  # a page that came back keeps its place in swap there


def test_limits_of_version_1_hold_memory_and_swap_together(tmp_path: Path) -> None:
    cgroup = HostCgroup("x", detect(v1(tmp_path)))
    cgroup.memory_path.mkdir(parents=True)
    limit, both = (cgroup.memory_path / f"memory.{name}limit_in_bytes" for name in ("", "memsw."))
    for file in (limit, both):
        file.write_text(str(1 << 62))
    cgroup.set_limits(budget=1 << 30, swap=1 << 20)
    assert (limit.read_text(), both.read_text()) == (str(1 << 30), str((1 << 30) + (1 << 20)))


def test_a_process_elsewhere_is_not_charged(tmp_path: Path) -> None:
    cgroup = HostCgroup("x", detect(v1(tmp_path)))
    cgroup.memory_path.mkdir(parents=True)
    (cgroup.memory_path / "cgroup.procs").write_text("12\n123\n")
    cgroup.require(12, "QEMU")
    with pytest.raises(CgroupError, match="not charged"):
        cgroup.require(1, "QEMU")
