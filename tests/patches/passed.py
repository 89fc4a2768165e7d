"""Checks of the patch series that have passed before, with everything that they depend on as it is now.

A series changes seldom and its checks take minutes, so `make test` does not repeat what it knows. `make patches`
does, and so does anything with MEMHINT_CHECK_AGAIN=1.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.paths import cache_dir
from tests.patches.command import ROOT, passes

AGAIN = "MEMHINT_CHECK_AGAIN"
FOLDERS = ("kernel", "qemu", "guest_agent", "tests/patches")
PROGRAMS = FOLDERS[:3]
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
    """All but pages; of the lab what the programs of the series import, and what is no Python."""
    for folder in FOLDERS:
        yield from _within(root / folder)
    yield from _imported(root)
    yield from (path for path in _within(root / "lab") if path.suffix != ".py" and "openstack" not in path.parts)


def _within(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md":
            yield path


def _imported(root: Path) -> list[Path]:
    """Modules of the lab that the programs need, directly or not."""
    found: set[Path] = set()
    left = [path for folder in PROGRAMS for path in _within(root / folder) if _is_python(path)]
    while left:
        for name in _names(ast.parse(left.pop().read_bytes())):
            parts = name.split(".")
            if parts[0] != "lab":
                continue
            for end in range(1, len(parts) + 1):
                base = root.joinpath(*parts[:end])
                new = {path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()} - found
                found |= new
                left += new
    return sorted(found)


def _is_python(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix == ".py" or file.readline().startswith(b"#!/usr/bin/env python3")


def _names(node: ast.AST) -> Iterator[str]:
    """Modules that are imported anywhere in it, but for what only a type checker reads."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{one.name}" for one in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _names(child)


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
