"""What stands in the way of a demo is said before anything is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab import preflight
from lab.demo.scenario import Settings
from lab.openstack.packing import Settings as PackingSettings

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that has all that is needed, as files below a directory."""
    for name in ("proc/self", "dev/net", "sys/fs/cgroup"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "dev/net/tun").touch()
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {20 * GIB // 1024} kB\n")
    (tmp_path / "proc/self/status").write_text("Name:\tx\nCapEff:\t000001ffffffffff\n")
    (tmp_path / "proc/self/mounts").write_text("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory io\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(preflight.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(0, 0, 100 * GIB))
    return tmp_path


@pytest.mark.parametrize("demo", preflight.NEEDS)
def test_a_fitting_machine_has_no_problem(machine: Path, demo: str) -> None:
    assert preflight.problems(demo, machine) == []


def test_who_is_not_root_is_told_how(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (text,) = preflight.problems("demo", machine)
    assert "sudo make demo" in text


def test_too_little_memory(machine: Path) -> None:
    (machine / "proc/meminfo").write_text(f"MemAvailable: {3 * GIB // 1024} kB\n")
    (text,) = preflight.problems("demo", machine)
    assert "6 GiB of memory, and 3 are available" in text


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_with_too_little_memory(machine: Path, version: int) -> None:
    cgroup = machine / "sys/fs/cgroup"
    limit, usage, cached = (
        ("memory.max", "memory.current", "active_file")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file")
    )
    if version == 1:
        (machine / "proc/self/mounts").write_text("cgroup /sys/fs/cgroup cgroup rw,memory 0 0\n")
    (cgroup / limit).write_text(f"{4 * GIB}\n")
    (cgroup / usage).write_text(f"{2 * GIB}\n")
    (cgroup / "memory.stat").write_text(f"anon 1\n{cached} {GIB}\n")
    (text,) = preflight.problems("demo", machine)
    assert "6 GiB of memory, and the memory limit of this container leaves 3" in text
    (cgroup / limit).write_text("max\n" if version == 2 else f"{(1 << 63) - 4096}\n")
    assert preflight.problems("demo", machine) == []


def test_root_without_rights(machine: Path) -> None:
    (machine / "proc/self/status").write_text("CapEff:\t00000000a80425fb\n")  # as Docker starts a container
    (text,) = preflight.problems("demo", machine)
    assert "root lacks CAP_SYS_ADMIN and CAP_NET_ADMIN here" in text


def test_cgroups_that_cannot_be_written(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("cgroup"))
    (text,) = preflight.problems("demo", machine)
    assert "cgroup cannot be written" in text


def test_too_little_disk(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(0, 0, 2 * GIB))
    found = preflight.problems("demo", machine)
    assert found
    assert all("GiB of disk below" in text and "2 are free" in text for text in found)


def test_no_memory_controller(machine: Path) -> None:
    (machine / "sys/fs/cgroup/cgroup.controllers").write_text("cpu io\n")
    (text,) = preflight.problems("demo", machine)
    assert "cgroup_disable=memory" in text


def test_the_first_version_of_cgroups_will_do(machine: Path) -> None:
    (machine / "proc/self/mounts").write_text("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n")
    (machine / "sys/fs/cgroup/memory").mkdir()
    assert preflight.problems("demo", machine) == []


def test_only_the_demo_with_networks_needs_tun(machine: Path) -> None:
    (machine / "dev/net/tun").unlink()
    assert preflight.problems("demo", machine) == []
    (text,) = preflight.problems("demo-openstack", machine)
    assert "modprobe tun" in text


def test_another_architecture(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight.platform, "machine", lambda: "aarch64")
    (text,) = preflight.problems("demo", machine)
    assert "aarch64" in text


def test_the_needs_are_those_of_the_demos() -> None:
    demo, packing = Settings(), PackingSettings()
    assert preflight.NEEDS["demo"].memory >= demo.budget + GIB
    assert preflight.NEEDS["demo"].swap == demo.swap
    assert preflight.NEEDS["demo-openstack"].memory >= 2 * packing.memory + 3 * GIB
    assert preflight.NEEDS["demo-openstack"].swap == packing.swap


def test_it_runs_without_the_virtualenv() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", preflight.__file__, "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "usage" in done.stderr
