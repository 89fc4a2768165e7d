"""The virtualenv of a release's services: made once from the package index, in the cache, and shared by all stacks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.image import Progress, locked
from lab.openstack.errors import PackagesFailed
from lab.openstack.releases import PACKAGES, Release
from lab.paths import cache_dir
from lab.programs import find


def virtualenv(release: Release, tell: Progress) -> Path:
    """The release's virtualenv, made unless the cache has it; a few minutes then."""
    packages = (*PACKAGES, *release.unsaid)
    wanted = release.constraints.read_bytes() + "\n".join((*packages, sys.version)).encode()
    folder = cache_dir() / "openstack" / f"{release.nova}-{hashlib.sha256(wanted).hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    ready = folder / "ready"
    with locked(folder.parent / f"{release.nova}.lock"):
        if not ready.exists():
            tell("packages", f"OpenStack {release.series} into {folder}", 0, 1)
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(folder / "venv")])
            _pip(folder / "venv", ["-c", str(release.constraints), *packages])
            ready.touch()
    tell("packages", "ready", 1, 1)
    return folder / "venv"


def extended(venv: Path, packages: Sequence[str], copy: Path) -> Path:
    """A copy of a virtualenv with more packages in it, which must need nothing that is not there already.

    Programs of the copy are run with its `bin/python`: their first lines name the virtualenv they come from.
    """
    # Hard links where the file system can: pip replaces files and changes none.
    if subprocess.run(["cp", "-al", str(venv), str(copy)], capture_output=True, check=False).returncode:
        shutil.rmtree(copy, ignore_errors=True)
        _run(["cp", "-a", str(venv), str(copy)])
    _pip(copy, ["--no-deps", "--no-build-isolation", *packages])
    return copy


def _pip(venv: Path, words: Sequence[str]) -> None:
    _run([str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *words])


def _run(command: Sequence[str]) -> None:
    # Compiling uWSGI and libvirt-python: not at the cost of what else the machine does.
    done = subprocess.run(
        [find("nice"), "-n", "10", *command], capture_output=True, text=True, check=False, env={**os.environ}
    )
    if done.returncode:
        raise PackagesFailed(f"{' '.join(command)}: {(done.stderr or done.stdout)[-1500:]}")
