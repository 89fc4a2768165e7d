"""The images of this checkout and buildah's store of them, for the tests of this folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from lab.paths import cache_dir

ROOT = Path(__file__).resolve().parents[2]
STORE = cache_dir() / "containers"
BUILDAH = ("buildah", "--root", str(STORE / "images"), "--runroot", str(STORE / "run"), "--storage-driver", "overlay")
STANDINS = {
    "postgres": "docker.io/library/postgres:15",
    "rabbitmq": "docker.io/library/rabbitmq:3.13",
}
"""Targets of standins/Containerfile, and the published images whose place they take."""


def run(*words: str, **options: Any) -> str:
    """What a command printed; it must not fail."""
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def missing() -> str:
    """Why no images can be made here; empty where they can."""
    if os.geteuid() != 0:
        return "images are built by root here"
    wanted = [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]
    return f"apt-get install {' '.join(wanted)}" if wanted else ""


def build() -> None:
    """Make localhost/memhint-agent, -controller and -api, as far as the store has not the same already."""
    STORE.mkdir(parents=True, exist_ok=True)
    run(str(ROOT / "tools/images"), env={**os.environ, "BUILDAH": " ".join(BUILDAH)})


def build_standins() -> None:
    """Make what takes the place of the published images, from the base that `build` has made."""
    folder = Path(__file__).with_name("standins")
    for target in STANDINS:
        words = ("bud", "-q", "--isolation", "chroot", "--layers", "--format", "docker", "--target", target)
        run(*BUILDAH, *words, "-t", f"localhost/standin-{target}", "-f", str(folder / "Containerfile"), str(folder))


def archive(image: str, name: str, file: Path) -> None:
    """Write an image of the store to a file that `docker load` takes, under a name."""
    run(*BUILDAH, "push", "-q", image, f"docker-archive:{file}:{name}")
