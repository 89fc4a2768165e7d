"""What a demo needs of the machine, looked at before anything is installed: `python3 lab/preflight.py demo`.

A program of its own, and only the standard library: the virtualenv is made after it.
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


class Need(NamedTuple):
    """What a demo takes, in bytes. The virtualenv and the Debian packages take more disk, once."""

    memory: int  # of its hosts, and of what runs beside them
    swap: int
    cache: int  # what is downloaded and built
    tun: bool = False  # networks for its VMs


NEEDS = {
    "demo": Need(memory=6 * GIB, swap=12 * GIB, cache=1 * GIB),
    "demo-openstack": Need(memory=14 * GIB, swap=24 * GIB, cache=3 * GIB, tun=True),
}


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
    if platform.machine() != "x86_64":
        found.append(f"its guests are x86-64, this machine is {platform.machine()}: run it on an x86-64 machine")
    if shutil.which("apt-get") is None:
        found.append("it takes its packages from Debian's or Ubuntu's apt-get, which is not here")
    found += _memory(need.memory, root)
    found += _disk(need)
    if not _memory_cgroup(root):
        found.append("no cgroup hierarchy has a memory controller: boot without cgroup_disable=memory")
    if need.tun and not (root / "dev/net/tun").exists():
        found.append("its networks need TUN devices and there is no /dev/net/tun: run `modprobe tun`")
    return found


def _memory(needed: int, root: Path) -> list[str]:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
            if available < needed:
                return [
                    f"it needs {_gib(needed)} GiB of memory, and {_gib(available)} are available: end something, or use"
                    " a larger machine"
                ]
    return []


def _disk(need: Need) -> list[str]:
    """Swap is where labs are, what is downloaded in the cache; often they share one file system."""
    labs = Path(os.environ.get("MEMHINT_LAB_DIR") or "/var/tmp/memhint-lab")
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    cache = Path(os.environ.get("MEMHINT_CACHE") or f"{base}/memhint")
    wanted: dict[int, tuple[Path, int, str]] = {}
    for path, size, name in ((labs, need.swap, "MEMHINT_LAB_DIR"), (cache, need.cache, "MEMHINT_CACHE")):
        there = _existing(path)
        device = there.stat().st_dev
        first, known, setting = wanted.get(device, (there, 0, name))
        wanted[device] = (first, known + size, setting)
    found = []
    for there, size, name in wanted.values():
        free = shutil.disk_usage(there).free
        if free < size:
            found.append(
                f"it needs {_gib(size)} GiB of disk below {there}, and {_gib(free)} are free: make room, or set {name}"
                " to a directory with more"
            )
    return found


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path


def _memory_cgroup(root: Path) -> bool:
    for line in (root / "proc/self/mounts").read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup" and "memory" in options.split(","):
            return True
        controllers = root / where.lstrip("/") / "cgroup.controllers"
        if kind == "cgroup2" and controllers.exists() and "memory" in controllers.read_text().split():
            return True
    return False


def _gib(size: int) -> str:
    return f"{size / GIB:.1f}".removesuffix(".0")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
