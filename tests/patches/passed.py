"""Checks of the patch series that have passed before, with everything that they depend on as it is now.

A series changes seldom and its checks take minutes, so `make test` does not repeat what it knows. `make patches`
does, and so does anything with MEMHINT_CHECK_AGAIN=1.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.paths import cache_dir
from tests.patches.command import ROOT, passes

AGAIN = "MEMHINT_CHECK_AGAIN"
FOLDERS = ("kernel", "qemu", "guest_agent", "lab", "tests/patches")
PACKAGES = ("gcc", "libc6-dev", "qemu-system-x86", "busybox-static", "seabios", "libglib2.0-dev")
SOURCES = ("linux-source-6.12", "linux-source-6.1")


def passes_once(*words: str) -> None:
    """Run a program of the checkout, unless it has passed just like this."""
    if _note(words).exists() and os.environ.get(AGAIN) != "1":
        print(f"{' '.join(words)} has passed before with the same content: {AGAIN}=1 runs it again")
        return
    passes(*words)
    note = _note(words)  # of now: a check may have fetched its sources
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()


def _note(words: tuple[str, ...]) -> Path:
    return cache_dir() / "passed" / digest(words)


def digest(words: tuple[str, ...], root: Path | None = None) -> str:
    """Changes with the command, series and tests, the lab, compilers, emulators, sources, and the kernel underneath."""
    key = hashlib.sha256()
    for text in (*words[1:], Path(words[0]).name, platform.release(), platform.machine(), *_installed(), *_fetched()):
        key.update(text.encode() + b"\0")
    root = root or ROOT
    for path in _files(root):
        key.update(str(path.relative_to(root)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        key.update(bytes([path.stat().st_mode & 0o100 != 0]))
    return key.hexdigest()[:24]


def _files(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _installed() -> list[str]:
    """What the checks build and run with, and the sources on offer."""
    asked = ["dpkg-query", "--show", "--showformat=${Package} ${Version}\n", *PACKAGES]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    policy = ["apt-cache", "policy", *SOURCES]
    offered = subprocess.run(policy, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    candidates = [line.strip() for line in offered.stdout.splitlines() if line.startswith("  Candidate:")]
    return [*done.stdout.splitlines(), *candidates]


def _fetched() -> list[str]:
    """The source packages in the cache: those of another release are not on this machine's offer."""
    found = [*cache_dir().glob("qemu/source/*"), *cache_dir().glob("kernel/src/linux-source-7.*")]
    return sorted(path.name for path in found)
