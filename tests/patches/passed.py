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
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.paths import cache_dir
from tests.patches.command import ROOT, passes

AGAIN = "MEMHINT_CHECK_AGAIN"
PACKAGES = ("gcc", "libc6-dev", "qemu-system-x86", "busybox-static", "seabios", "libglib2.0-dev")
SOURCES = ("linux-source-6.12", "linux-source-6.1")


def passes_once(*words: str, reads: Sequence[str]) -> None:
    """Run a program of the checkout, unless it has passed just like this.

    :param reads: files and folders of the checkout that it reads: its own, and those of what it calls. What they import
        of the lab is found by itself, and so is what of the lab is no Python.
    """
    if _note(words, reads).exists() and os.environ.get(AGAIN) != "1":
        print(f"{' '.join(words)} has passed before with the same content: {AGAIN}=1 runs it again")
        return
    passes(*words)
    note = _note(words, reads)  # of now: a check may have fetched its sources
    note.parent.mkdir(parents=True, exist_ok=True)
    note.touch()


def patches(version: str, *lists: str) -> tuple[str, ...]:
    """The patches of a kernel's series, to be read, and the lists that name them, such as ``series``."""
    folder = f"kernel/patches/{version}"
    named = [name for one in lists for name in (ROOT / folder / one).read_text().split()]
    return tuple(f"{folder}/{name}" for name in (*lists, *named))


def _note(words: tuple[str, ...], reads: Sequence[str]) -> Path:
    return cache_dir() / "passed" / digest(words, reads)


def digest(words: tuple[str, ...], reads: Sequence[str], root: Path | None = None) -> str:
    """Changes with the command, what it reads, compilers, emulators, sources, and the kernel underneath.

    Raises FileNotFoundError where something of `reads` is not there.
    """
    key = hashlib.sha256()
    for text in (*words[1:], Path(words[0]).name, platform.release(), platform.machine(), *_installed(), *_fetched()):
        key.update(text.encode() + b"\0")
    root = root or ROOT
    for path in _files(root, reads):
        key.update(str(path.relative_to(root)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        key.update(bytes([path.stat().st_mode & 0o100 != 0]))
    return key.hexdigest()[:24]


def _files(root: Path, reads: Sequence[str]) -> list[Path]:
    """All of `reads` but pages; and of the lab, where they import anything of it, that and what is no Python."""
    found: set[Path] = set()
    for name in reads:
        found.update(_within(root / name))
    imported = _imported(root, [path for path in found if _is_python(path)])
    if imported:
        found.update(path for path in _within(root / "lab") if path.suffix != ".py" and "openstack" not in path.parts)
    return sorted(found | imported)


def _within(path: Path) -> Iterator[Path]:
    """The files of a folder, pages left out; a file itself."""
    if not path.exists():
        raise FileNotFoundError(f"a check is said to read {path}, which is not there")
    for file in path.rglob("*") if path.is_dir() else (path,):
        if file.is_file() and "__pycache__" not in file.parts and file.suffix != ".md":
            yield file


def _imported(root: Path, programs: Sequence[Path]) -> set[Path]:
    """Modules of the lab that the programs need, directly or not."""
    found: set[Path] = set()
    left = list(programs)
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
    return found


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
