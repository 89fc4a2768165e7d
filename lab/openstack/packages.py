"""The virtualenv of a release's services: made once from the package index, in the cache, and shared by all stacks.

Computes of another release of Debian have one of their own, by that release's Python and libvirt's library.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import debian_root
from lab.image import Progress, locked
from lab.openstack.errors import PackagesFailed
from lab.openstack.releases import COMPUTE_PACKAGES, PACKAGES, Release
from lab.paths import cache_dir
from lab.programs import find

HOST_PACKAGES = (
    *debian_root.HOST_PACKAGES, "qemu-utils",
    "python3-venv", "python3-dev", "gcc", "libc6-dev", "pkg-config", "libvirt-dev",
)  # fmt: skip
"""Debian packages of a compute of another release: Nova's qemu-img, and what builds libvirt-python."""
_DECIDING = ("python3", "libvirt-dev")
"""Those whose versions say whether a virtualenv can still be used."""


@dataclass(frozen=True)
class Ground:
    """Where a virtualenv is made and used."""

    python: str
    """Path of the Python that it is made of."""
    identity: str
    """What it is built against; of another one it would not run."""
    enter: tuple[str, ...] = ()
    """Words before each command."""


MACHINE = Ground(sys.executable, sys.version)


def debian_ground(system: str, tell: Progress) -> Ground:
    """A release of Debian: its programs and libraries in place of the machine's.

    :raises ImageError: when it cannot be had
    """
    root = debian_root.debian_root(system, HOST_PACKAGES, lambda what: tell("packages", what, 0, 1))
    versions = (root.parent / "packages.txt").read_text().splitlines()
    deciding = [line for line in versions if line.split()[0] in _DECIDING]
    return Ground("/usr/bin/python3", "\n".join((system, *deciding)), tuple(debian_root.programs_argv(root)))


def virtualenv(release: Release, tell: Progress) -> Path:
    """The release's virtualenv, made unless the cache has it; a few minutes then.

    :raises PackagesFailed: when pip cannot install what is asked for
    """
    return _made(release, PACKAGES, MACHINE, f"OpenStack {release.series}", tell)


def compute_virtualenv(release: Release, ground: Ground, tell: Progress) -> Path:
    """The same for computes on a ground of their own, with Nova alone.

    :raises PackagesFailed: when pip cannot install what is asked for
    """
    return _made(release, COMPUTE_PACKAGES, ground, f"Nova {release.nova} for computes", tell)


def extended(venv: Path, packages: Sequence[str], copy: Path, ground: Ground = MACHINE) -> Path:
    """A copy of a virtualenv with more packages in it, which must need nothing that is not there already.

    Programs of the copy are run with its `bin/python`: their first lines name the virtualenv they come from.
    """
    # Hard links where the file system can: pip replaces files and changes none.
    if subprocess.run(["cp", "-al", str(venv), str(copy)], capture_output=True, check=False).returncode:
        shutil.rmtree(copy, ignore_errors=True)
        _run(MACHINE, ["cp", "-a", str(venv), str(copy)])
    _pip(ground, copy, ["--no-deps", "--no-build-isolation", *packages])
    return copy


def _made(release: Release, packages: Sequence[str], ground: Ground, what: str, tell: Progress) -> Path:
    packages = (*packages, *release.unsaid)
    wanted = release.constraints.read_bytes() + "\n".join((*packages, ground.identity)).encode()
    folder = cache_dir() / "openstack" / f"{release.nova}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    ready = folder / "ready"
    with locked(folder.parent / f"{release.nova}.lock"):
        if not ready.exists():
            tell("packages", f"{what} into {folder}", 0, 1)
            shutil.rmtree(folder, ignore_errors=True)
            _run(ground, [ground.python, "-m", "venv", str(folder / "venv")])
            _pip(ground, folder / "venv", ["-c", str(release.constraints), *packages])
            ready.touch()
    tell("packages", "ready", 1, 1)
    return folder / "venv"


def _pip(ground: Ground, venv: Path, words: Sequence[str]) -> None:
    _run(ground, [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *words])


def _run(ground: Ground, command: Sequence[str]) -> None:
    # Compiling uWSGI and libvirt-python: not at the cost of what else the machine does.
    done = subprocess.run(
        [find("nice"), "-n", "10", *ground.enter, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    if done.returncode:
        raise PackagesFailed(f"{' '.join(command)}: {(done.stderr or done.stdout)[-1500:]}")
