"""A disk with a compiler and the source of zstd, for guests that build it: made of Debian's packages, in the cache.

zstd's library is 40 C files of very different size: a compiler takes from a few to over two hundred MiB, and that comes
and goes with every file. Its build needs nothing but make, a compiler and a shell.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import ImageError
from lab.image import locked
from lab.packages import Package, asked, fetch, offered, unpack
from lab.paths import cache_dir
from lab.programs import find, run
from qemu.qemubuild import Apt

RELEASE = "bookworm"
SOURCE, UPSTREAM = "libzstd", "1"
TOOLS = (
    "gcc-12", "cpp-12", "libgcc-12-dev", "libgcc-s1", "binutils", "binutils-x86-64-linux-gnu", "binutils-common",
    "libbinutils", "libctf0", "libctf-nobfd0", "libisl23", "libmpc3", "libmpfr6", "libgmp10", "libjansson4", "libzstd1",
    "zlib1g", "make", "libc6", "libc6-dev", "libcrypt-dev", "linux-libc-dev",
)  # fmt: skip
SIZE_MIB = 1024
LEFT_OUT = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/lib/gcc/x86_64-linux-gnu/12/lto1")


@dataclass(frozen=True, slots=True)
class BuildDisk:
    """An ext4 file system that is never written to: guests get overlays of it."""

    path: Path
    compiler: str
    source: str
    """What is built, with its version."""


def build_disk(tell: Callable[[str], None]) -> BuildDisk:
    """The disk, made unless the cache has it: a minute the first time, and 40 MB to fetch. Raises ImageError."""
    root = cache_dir() / "bench"
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "build-disk.lock"):
        tools, source = _newest(root)
        final = root / f"build-disk-{_key(tools, source)[:16]}"
        if not (final / "manifest.json").exists():
            _make(final, tools, source, root, tell)
    manifest = json.loads((final / "manifest.json").read_text())
    return BuildDisk(final / "disk.raw", manifest["compiler"], manifest["source"])


def _newest(root: Path) -> tuple[list[Package], str]:
    """The packages and the source's version."""

    def ask() -> dict[str, Any]:
        tools = [offered(name) for name in TOOLS]
        apt = Apt(root / f"apt-{RELEASE}", RELEASE)
        apt.update()
        return {"tools": [(one.name, one.version) for one in tools], "source": str(apt.newest(SOURCE, UPSTREAM))}

    def read(found: dict[str, Any]) -> tuple[list[Package], str]:
        if [name for name, _ in found["tools"]] != list(TOOLS):
            raise ValueError("asked for others")
        return [Package(*one) for one in found["tools"]], str(found["source"])

    return asked(root / "build-disk-packages.json", ask, read)


def _key(tools: list[Package], source: str) -> str:
    digest = hashlib.sha256()
    for part in (*(one.key for one in tools), source, *LEFT_OUT, str(SIZE_MIB)):
        digest.update(part.encode() + b"\0")
    for file in (Path(__file__), Path(find("busybox"))):
        digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()


def _make(final: Path, tools: list[Package], source: str, root: Path, tell: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(dir=root) as scratch_name:
        scratch = Path(scratch_name)
        tree = scratch / "tree"
        tree.mkdir()
        tell("fetching and unpacking a compiler")
        for package in tools:
            unpack(fetch(package, root / "deb"), tree)
        for folder in LEFT_OUT:
            _remove(tree / folder)
        for name in ("gcc", "cc"):
            (tree / "usr/bin" / name).symlink_to("gcc-12")
        _busybox(tree)
        for folder in ("proc", "dev", "tmp"):
            (tree / folder).mkdir()
        tell(f"fetching the source of {SOURCE} {source}")
        fetched = scratch / "source"
        fetched.mkdir()
        Apt(root / f"apt-{RELEASE}", RELEASE).fetch(SOURCE, source, fetched)
        (archive,) = fetched.glob("*.orig.tar.*z")
        (tree / "src").mkdir()
        run(["tar", "-xf", str(archive), "-C", str(tree / "src"), "--strip-components=1"], "unpacking", ImageError)
        ready = scratch / "ready"
        ready.mkdir()
        tell("making the disk")
        run(
            ["mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", str(tree), str(ready / "disk.raw"), f"{SIZE_MIB}M"],
            "making the disk",
            ImageError,
        )
        compiler = next(one for one in tools if one.name == "gcc-12")
        (ready / "manifest.json").write_text(
            json.dumps({"compiler": f"gcc {compiler.version}", "source": f"zstd {source}"})
        )
        shutil.rmtree(final, ignore_errors=True)
        ready.rename(final)


def _busybox(tree: Path) -> None:
    """A shell and the small programs that a Makefile calls, where Debian's are not unpacked."""
    busybox = Path(find("busybox"))
    shutil.copy(busybox, tree / "usr/bin/busybox")
    (tree / "bin").mkdir(exist_ok=True)
    for applet in run([str(busybox), "--list"], "applets", ImageError).split():
        path = tree / "bin" / applet
        # make is a real one; ar and the like are the compiler's
        if not path.exists() and not (tree / "usr/bin" / applet).exists():
            path.symlink_to("/usr/bin/busybox")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
