"""The images of this checkout and buildah's store of them, for the tests of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lab.paths import cache_dir

ROOT = Path(__file__).resolve().parents[2]
STORE = cache_dir() / "containers"
BUILDAH = ("buildah", "--root", str(STORE / "images"), "--runroot", str(STORE / "run"), "--storage-driver", "overlay")
STANDINS = {
    "debian": "docker.io/library/debian:12-slim",
    "postgres": "docker.io/library/postgres:15",
    "rabbitmq": "docker.io/library/rabbitmq:3.13",
}
"""Targets of standins/Containerfile, and the published images whose place they take."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""By which this machine knows the package index."""


def run(*words: str, **options: Any) -> str:
    """What a command printed; it must not fail."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def missing() -> str:
    """Why no images can be made here; empty where they can."""
    if os.geteuid() != 0:
        return "images are built by root here"
    wanted = [name for name in ("buildah", "mmdebstrap", "slirp4netns") if shutil.which(name) is None]
    return f"apt-get install {' '.join(wanted)}" if wanted else ""


def build(targets: str = "controller api agent") -> None:
    """Make localhost/memhint-TARGET for each of these words, as far as the store has not the same already, and the
    Debian below them."""
    STORE.mkdir(parents=True, exist_ok=True)
    run(str(ROOT / "tools/images"), env={**os.environ, "BUILDAH": " ".join(BUILDAH), "TARGETS": targets})


def build_standins() -> None:
    """Make what takes the place of the published images, with the Debian below them."""
    build(targets="")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "standins"
        shutil.copytree(Path(__file__).with_name("standins"), folder)
        shutil.copy2(CERTIFICATES, folder / "certificates.crt")
        for target in STANDINS:
            words = ("bud", "-q", "--isolation", "chroot", "--layers", "--format", "docker", "--target", target)
            run(*BUILDAH, *words, "-t", f"localhost/standin-{target}", "-f", str(folder / "Containerfile"), str(folder))


def checkout(into: Path) -> None:
    """Copy what belongs to this checkout, as somebody has it who has cloned it."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, names):
        here = ROOT / name.decode()
        if here.is_file():
            there = into / name.decode()
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, there, follow_symlinks=False)


def archive(image: str, name: str, file: Path) -> None:
    """Write an image of the store to a file that `docker load` takes, under a name."""
    run(*BUILDAH, "push", "-q", image, f"docker-archive:{file}:{name}")
