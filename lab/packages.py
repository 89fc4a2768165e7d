"""Debian packages as material: fetched and unpacked into a cache, never installed on the machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lab.errors import ImageError, UnknownKernel
from lab.programs import find, run

T = TypeVar("T")

# Series a guest may boot, and the packages that lead to the newest build of each.
KERNEL_SERIES = {
    "6.12": ("linux-image-6.12-cloud-amd64", "linux-image-cloud-amd64"),
    "6.1": ("linux-image-cloud-amd64",),
}


@dataclass(frozen=True)
class Package:
    """A package in one version."""

    name: str
    version: str

    @property
    def key(self) -> str:
        """As apt-get takes it."""
        return f"{self.name}={self.version}"


def candidate(name: str) -> Package | None:
    """The version apt would take now; None when it knows no such package."""
    done = subprocess.run(
        [find("apt-cache"), "policy", name], capture_output=True, text=True, env={"LC_ALL": "C"}, check=False
    )
    match = re.search(r"^  Candidate: (\S+)$", done.stdout, re.MULTILINE)
    if match is None or match.group(1) == "(none)":
        return None
    return Package(name, match.group(1))


def offered(name: str) -> Package:
    """The same of one that is needed. Raises ImageError where apt knows none."""
    found = candidate(name)
    if found is None:
        raise ImageError(f"apt offers no {name}: run apt-get update")
    return found


def apt_stamp() -> str:
    """Changes whenever apt's package lists or sources may have: their names and modification times, hashed."""
    digest = hashlib.sha256()
    for folder in ("/var/lib/apt/lists", "/etc/apt", "/etc/apt/sources.list.d", "/etc/apt/preferences.d"):
        for file in sorted(Path(folder).glob("*")):
            digest.update(f"{file} {file.stat().st_mtime_ns}\n".encode())
    return digest.hexdigest()


def asked(known: Path, ask: Callable[[], dict[str, Any]], read: Callable[[dict[str, Any]], T]) -> T:
    """What `read` makes of what `ask` finds by apt, which takes seconds: `known` keeps it for as long as apt's own
    knowledge does not change. What `read` refuses by a ValueError, KeyError or TypeError is asked for again."""
    stamp = apt_stamp()
    try:
        kept = json.loads(known.read_text())
        if kept["stamp"] == stamp:
            return read(kept)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # never asked, or asked by another version of this program
    found = ask()
    fresh = known.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps({"stamp": stamp, **found}))
    fresh.rename(known)
    return read(found)


def dependencies(name: str) -> list[str]:
    """Names of the packages that `name` depends on."""
    text = run(
        ["apt-cache", "depends", "--no-recommends", "--no-suggests", name], f"dependencies of {name}", ImageError
    )
    return re.findall(r"^ *\|?(?:Pre)?Depends: ([^<\s]+)", text, re.MULTILINE)


def kernel_package(series: str) -> Package:
    """The package that carries the newest `series` kernel for virtual machines."""
    if series not in KERNEL_SERIES:
        raise UnknownKernel(f"kernel {series!r} is not one of {', '.join(KERNEL_SERIES)}")
    for meta in KERNEL_SERIES[series]:
        if candidate(meta) is None:
            continue
        for name in dependencies(meta):
            if name.startswith(f"linux-image-{series}."):
                found = candidate(name)
                if found is not None:
                    return found
    raise UnknownKernel(
        f"apt offers no {series} cloud kernel here: run apt-get update, and see that the distribution's security "
        "and updates sources are enabled; or choose another kernel"
    )


def fetch(package: Package, into: Path) -> Path:
    """Path of the package's .deb in `into`, downloaded unless it is there."""
    final = into / f"{package.name}_{package.version.replace(':', '%3a').replace('/', '_')}.deb"
    if final.exists():
        return final
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into) as scratch:
        # Without the sandbox option apt warns that its own user cannot write here.
        run(
            ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package.key],
            f"download of {package.key}",
            ImageError,
            cwd=Path(scratch),
        )
        fetched = list(Path(scratch).glob("*.deb"))
        if len(fetched) != 1:
            raise ImageError(
                f"apt-get download {package.key} left {len(fetched)} files: run apt-get update and try again"
            )
        shutil.move(fetched[0], final)
    return final


def unpack(deb: Path, into: Path) -> None:
    """Unpack a .deb below `into`."""
    run(["dpkg", "-x", str(deb), str(into)], f"unpacking {deb.name}", ImageError)
