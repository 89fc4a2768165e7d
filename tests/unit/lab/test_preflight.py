"""What stands in the way of a demo is said before anything is installed."""

import ast
import configparser
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
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nNAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n'
MINT = 'NAME="Linux Mint"\nID="linuxmint"\nID_LIKE="ubuntu debian"\n'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that has all that is needed, as files below a directory."""
    for name in ("proc/self", "dev/net", "sys/fs/cgroup"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "dev/net/tun").touch()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(DEBIAN)
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
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as cgroups are closed to him on every machine
    (text,) = preflight.problems("demo", machine)
    assert "sudo make demo" in text


@pytest.mark.parametrize(
    ("release", "name"), [(UBUNTU, "Ubuntu 24.04.1 LTS"), (MINT, "Linux Mint"), ("ID=odd\n", "odd")]
)
def test_another_distribution_is_told_before_its_packages_are_installed(machine: Path, release: str, name: str) -> None:
    (machine / "etc/os-release").write_text(release)
    (text,) = preflight.problems("demo", machine)
    assert f"this is {name}: run it on Debian 12 or 13" in text


@pytest.mark.parametrize("release", [None, "", "garbage\n", "ID='debian'\n", DEBIAN.replace("12", "13")])
def test_debian_is_not_refused_nor_what_does_not_say(machine: Path, release: str | None) -> None:
    (machine / "etc/os-release").unlink()
    if release is not None:
        (machine / "etc/os-release").write_text(release)
    assert preflight.problems("demo", machine) == []


def test_a_debian_without_the_kernels_of_the_guests_is_told_before_its_packages_are_installed(machine: Path) -> None:
    (machine / "etc/os-release").write_text("ID=debian\nVERSION_CODENAME=forky\n")
    (text,) = preflight.problems("demo", machine)
    assert "this is forky: run it on Debian 12 or 13" in text
    for codename in preflight.RELEASES:
        (machine / "etc/os-release").write_text(f"ID=debian\nVERSION_CODENAME={codename}\n")
        assert preflight.problems("demo", machine) == []


def test_no_apt_get(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    (text,) = preflight.problems("demo", machine)
    assert "apt-get, which is not here: run it on Debian 12 or 13" in text


def test_a_python_that_is_too_old(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    (text,) = preflight.problems("demo", machine)
    assert "Python 3.11 or later" in text
    assert "is 3.9: " in text
    assert "`make demo PYTHON=" in text


def test_it_says_so_with_an_old_python() -> None:
    source = Path(preflight.__file__).read_text()
    ast.parse(source, feature_version=(3, 7))
    assert "removesuffix" not in source  # nor removeprefix: of 3.9
    assert "removeprefix" not in source


def test_the_python_is_that_of_the_package() -> None:
    package = configparser.ConfigParser()
    package.read(Path(__file__).parents[3] / "setup.cfg")
    assert package["metadata"]["python_requires"] == f">={preflight.PYTHON[0]}.{preflight.PYTHON[1]}"


def test_directories_that_are_closed_to_the_user(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as /root, who has it as HOME and is not root."""
    closed = machine / "closed"
    closed.mkdir()
    monkeypatch.setenv("MEMHINT_LAB_DIR", str(closed / "labs/of/mine"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(closed / "cache"))
    monkeypatch.delenv("MEMHINT_CACHE", raising=False)
    real = Path.exists

    def exists(path: Path) -> bool:
        if closed in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "exists", exists)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(0, 0, 2 * GIB))
    root, disk = preflight.problems("demo", machine)
    assert "sudo make demo" in root
    assert f"of disk below {closed}, and 2 are free" in disk


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


@pytest.mark.parametrize(
    ("clean", "words", "needed"),
    [
        (False, {}, 13),  # swap, and what is downloaded
        (True, {}, 15),  # the virtualenv and Debian's packages besides
        (False, {"PATCHED": "1"}, 17),
        (False, {"PATCHED": "0"}, 13),
        (True, {"PATCHED": "1"}, 19),
    ],
)
def test_disk_for_what_is_installed_and_built_first(
    machine: Path, clean: bool, words: dict[str, str], needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEMHINT_CACHE", "PATCHED", "VENV"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"MEMHINT_LAB_DIR": machine, "XDG_CACHE_HOME": machine, **words}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr(preflight, "CHECKOUT", machine)
    if not clean:
        for name in ("usr/sbin/libvirtd", "usr/bin/qemu-system-x86_64", ".venv/bin/python"):
            (machine / name).parent.mkdir(parents=True)
            (machine / name).touch()
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(0, 0, 2 * GIB))
    (text,) = preflight.problems("demo", machine)
    assert f"it needs {needed} GiB of disk" in text
    assert "or set MEMHINT_LAB_DIR" in text


@pytest.mark.parametrize(("name", "todo"), [("MEMHINT_LAB_DIR", "or set MEMHINT_LAB_DIR"), ("MEMHINT_CACHE", "or set")])
def test_directories_that_cannot_be_written(
    machine: Path, name: str, todo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(machine / "closed/of/mine"))
    (machine / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("closed"))
    (text,) = preflight.problems("demo", machine)
    assert text.startswith(f"{machine}/closed cannot be written: have it writable, {todo}")


def test_the_folder_of_the_results_cannot_be_written(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "CHECKOUT", machine / "checkout")
    (machine / "checkout/.venv/bin").mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("checkout"))
    (text,) = preflight.problems("demo", machine)
    assert "that is where its results go" in text


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
