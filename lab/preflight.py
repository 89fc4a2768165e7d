"""What a demo needs of the machine, looked at before anything is installed: `python3 lab/preflight.py demo`.

A program of its own, and only the standard library: the virtualenv is made after it. Python 3.7 has to do, so that one
that is too old for the rest is told.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

GIB = 1 << 30
PYTHON = (3, 11)
RELEASES = ("bookworm", "trixie")  # of Debian, whose kernels the guests boot
"""The oldest that memhint runs with."""
CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12}
"""What making namespaces, mounts, swap and networks takes; the numbers are those of linux/capability.h."""


CHECKOUT = Path(__file__).resolve().parent.parent


class Need(NamedTuple):
    """What a demo takes, in bytes."""

    memory: int  # of its hosts, and of what runs beside them
    swap: int
    cache: int  # what is downloaded and built
    packages: int  # Debian's, as apt counts them on a machine that has none of them, with their archives
    tun: bool = False  # networks for its VMs


NEEDS = {
    "demo": Need(memory=6 * GIB, swap=12 * GIB, cache=1 * GIB, packages=1 * GIB),
    "demo-openstack": Need(memory=14 * GIB, swap=24 * GIB, cache=3 * GIB, packages=5 * GIB // 4, tun=True),
}
VIRTUALENV = 1 * GIB
PATCHED = 4 * GIB
"""What the patched kernel (2.1 GiB), QEMU (1.0) and guest agent (0.4) take in the cache, with their sources."""


def main(words: Sequence[str], root: Path = Path("/")) -> int:
    """Print what is in the way, each with what to do; the exit code."""
    if len(words) != 1 or words[0] not in NEEDS:
        print(f"usage: preflight.py {'|'.join(NEEDS)}", file=sys.stderr)
        return 2
    found = problems(words[0], root)
    for text in found:
        print(f"make {words[0]}: {text}", file=sys.stderr)
    return 1 if found else 0


def problems(demo: str, root: Path = Path("/")) -> list[str]:
    """Sentences, each of one thing that is missing and how to get it."""
    need = NEEDS[demo]
    found = []
    if os.geteuid() != 0:
        found.append(f"it makes namespaces, cgroups and swap, which takes root: run `sudo make {demo}`")
    else:
        found += _rights(root)
        found += _writable()
    if sys.version_info[:2] < PYTHON:
        needed, here = (".".join(map(str, one)) for one in (PYTHON, sys.version_info[:2]))
        found.append(
            f"it takes Python {needed} or later, and {sys.executable} is {here}: run `make {demo} PYTHON=/path/to/it`"
        )
    if platform.machine() != "x86_64":
        found.append(f"its guests are x86-64, this machine is {platform.machine()}: run it on an x86-64 machine")
    found += _distribution(root)
    found += _memory(need.memory, root)
    found += _disk(need, root)
    cgroups = _memory_cgroup(root)
    if cgroups is None:
        found.append("no cgroup hierarchy has a memory controller: boot without cgroup_disable=memory")
    elif os.geteuid() == 0 and not os.access(cgroups, os.W_OK):
        found.append(
            f"{cgroups} cannot be written: in a container, run it on the machine itself or make the container"
            " privileged"
        )
    if need.tun and not (root / "dev/net/tun").exists():
        found.append("its networks need TUN devices and there is no /dev/net/tun: run `modprobe tun`")
    return found


def _rights(root: Path) -> list[str]:
    """What root in a container often may not do."""
    for line in (root / "proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            held = int(line.split()[1], 16)
            missing = [name for name, bit in CAPABILITIES.items() if not held >> bit & 1]
            if missing:
                return [
                    f"root lacks {' and '.join(missing)} here, which namespaces and swap take: in a container, run it"
                    " on the machine itself or make the container privileged"
                ]
    return []


def _distribution(root: Path) -> list[str]:
    """Debian's archive has all packages, and the kernels of the guests; those of its descendants need not."""
    where = "run it on Debian 12 or 13, such as in a virtual machine"
    said = {}
    try:
        for line in (root / "etc/os-release").read_text(errors="replace").splitlines():
            name, _, value = line.partition("=")
            said[name] = value.strip().strip("\"'")
    except OSError:
        pass  # not every chroot has it
    if said.get("ID", "debian") != "debian":
        name = said.get("PRETTY_NAME") or said.get("NAME") or said["ID"]
        return [f"its packages and the kernels of its guests are Debian's, and this is {name}: {where}"]
    codename = said.get("VERSION_CODENAME", "")
    if codename and codename not in RELEASES:
        return [f"the kernels of its guests are those of Debian 12 and 13, and this is {codename}: {where}"]
    if shutil.which("apt-get") is None:
        return [f"it takes its packages from Debian's apt-get, which is not here: {where}"]
    return []


def _memory(needed: int, root: Path) -> list[str]:
    """What is available on the machine, or in the container: its limit is that of the cgroup it sees as the root."""
    available = _machine_available(root)
    left = _container_left(root)
    if left is not None and left < min(needed, available):
        return [
            f"it needs {_gib(needed)} GiB of memory, and the memory limit of this container leaves {_gib(left)}: raise"
            " the limit, or run it on the machine itself"
        ]
    if available < needed:
        return [
            f"it needs {_gib(needed)} GiB of memory, and {_gib(available)} are available: end something, or use"
            " a larger machine"
        ]
    return []


def _machine_available(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 1 << 63  # a kernel that does not say: it will show


def _container_left(root: Path) -> int | None:
    """Bytes below the limit of the cgroup that is seen as the root; what is cached counts as free. None: no limit."""
    where = _memory_cgroup(root)
    for limit, usage in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        if where is None or not (where / limit).exists():
            continue
        most = (where / limit).read_text().strip()
        if most == "max":
            return None
        stat = dict(line.split() for line in (where / "memory.stat").read_text().splitlines())
        names = (
            ("inactive_file", "active_file") if limit == "memory.max" else ("total_inactive_file", "total_active_file")
        )
        cached = sum(int(stat.get(name, 0)) for name in names)
        return max(0, int(most) - int((where / usage).read_text()) + cached)
    return None


def _places() -> tuple[Path, Path]:
    """Where labs are, and the cache."""
    labs = Path(os.environ.get("MEMHINT_LAB_DIR") or "/var/tmp/memhint-lab")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return labs, Path(os.environ.get("MEMHINT_CACHE") or f"{base}/memhint")


def _writable() -> list[str]:
    """Root is kept from no directory but a read-only one."""
    labs, cache = _places()
    found = []
    for path, todo in (
        (labs, ", or set MEMHINT_LAB_DIR to another directory"),
        (cache, ", or set MEMHINT_CACHE to another directory"),
        (CHECKOUT / "demo-out", ": that is where its results go"),
    ):
        there = _existing(path)
        if not os.access(there, os.W_OK):
            found.append(f"{there} cannot be written: have it writable{todo}")
    return found


def _disk(need: Need, root: Path) -> list[str]:
    """Swap is where labs are, what is downloaded in the cache; often they share one file system with all else."""
    labs, cache = _places()
    # Of `make demo PATCHED=1`, which make tells its children. What is built or installed already takes no more.
    built = PATCHED if os.environ.get("PATCHED") == "1" else 0
    venv = CHECKOUT / (os.environ.get("VENV") or ".venv")
    installed = all((root / one).exists() for one in ("usr/sbin/libvirtd", "usr/bin/qemu-system-x86_64"))
    parts = (
        (labs, need.swap, "MEMHINT_LAB_DIR"),
        (cache, need.cache + built, "MEMHINT_CACHE"),
        (venv, 0 if (venv / "bin/python").exists() else VIRTUALENV, ""),
        (root / "usr", 0 if installed else need.packages, ""),
    )
    wanted: dict[int, tuple[Path, int, str]] = {}
    for path, size, name in parts:
        there = _existing(path)
        device = there.stat().st_dev
        first, known, setting = wanted.get(device, (there, 0, name))
        wanted[device] = (first, known + size, setting)
    found = []
    for there, size, name in wanted.values():
        free = shutil.disk_usage(there).free
        if free < size:
            found.append(
                f"it needs {_gib(size)} GiB of disk below {there}, and {_gib(free)} are free: make room"
                + (f", or set {name} to a directory with more" if name else "")
            )
    return found


def _existing(path: Path) -> Path:
    """The nearest directory that is there, as far as this user may look."""
    while True:
        try:
            if path.exists() or path == path.parent:
                return path
        except OSError:
            pass  # below a directory that is closed to the user
        path = path.parent


def _memory_cgroup(root: Path) -> Path | None:
    """The root of the hierarchy with the memory controller."""
    for line in (root / "proc/self/mounts").read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        found = root / where.lstrip("/")
        if kind == "cgroup" and "memory" in options.split(","):
            return found
        controllers = found / "cgroup.controllers"
        if kind == "cgroup2" and controllers.exists() and "memory" in controllers.read_text().split():
            return found
    return None


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}".replace(".0", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
