"""The guest image: a distribution kernel and an initramfs with a guest agent and the workload program.

Nothing is installed and no disk image is fetched: packages are unpacked into the cache and the few files that a guest
needs are put into an archive. The cache key is the content, so a second build finds everything done.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import lzma
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import patched
from lab.cpio import Archive
from lab.errors import ImageError
from lab.packages import KERNEL_SERIES, Package, asked, candidate, dependencies, fetch, kernel_package, offered, unpack
from lab.paths import cache_dir
from lab.programs import find, run
from lab.sizes import GIB

MODULES = ("virtio_pci", "virtio_balloon", "virtio_console", "virtio_blk")
APPLETS = (
    "sh", "mount", "umount", "cat", "echo", "ls", "ps", "free", "dmesg", "grep", "head", "tail", "awk", "dd", "sleep",
    "insmod", "lsmod", "poweroff", "reboot", "mkdir", "mknod", "uname", "kill", "sync", "hexdump", "od", "wc", "true",
)  # fmt: skip
AGENT_PACKAGE = "qemu-guest-agent"
DISK_SIZE = 64 * GIB
"""Size of the sparse disk whose blocks guests read to fill their page cache."""

Progress = Callable[[str, str, int, int], None]
"""Called with (stage, what is being done, steps done, steps in all)."""

_HERE = Path(__file__).resolve().parent
_STEPS = 6


@dataclass(frozen=True)
class Image:
    """Files a guest boots from."""

    kernel: Path
    initrd: Path
    release: str
    disk: Path
    root: Path | None = None
    """Disk with its system, on which nothing is written: guests get overlays of it. None is all in the initrd."""
    words: tuple[str, ...] = ()
    """What the kernel is told besides what all are."""


@dataclass(frozen=True)
class _Parts:
    """What an image is made of. What was built from patches takes the place of the distribution's package."""

    kernel: Package
    agent: Package
    kernel_folder: Path | None = None
    agent_program: Path | None = None


def build(series: str, progress: Progress | None = None, agent: str = "stock") -> Image:
    """The image with the newest kernel of `series` ("6.12", "6.1") or a patched one ("6.12-memhint"), and with the
    distribution's guest agent or the patched one ("memhint"); built unless the cache has it."""
    tell = progress or (lambda *_: None)
    stage = f"image {series}" + ("" if agent == "stock" else f", {agent} agent")
    tell(stage, "asking apt", 0, _STEPS)
    root = cache_dir() / "lab"
    root.mkdir(parents=True, exist_ok=True)
    stock = patched.KERNELS.get(series, series)
    if series in patched.KERNELS and stock not in KERNEL_SERIES:
        stock = next(iter(KERNEL_SERIES))  # the distribution has none of this version; nothing of it is in the image
    parts = _Parts(
        *_packages(stock, root / f"packages-{stock}.json"),
        patched.kernel_folder(series) if series in patched.KERNELS else None,
        patched.agent_program() if agent == "memhint" else None,
    )
    key = _key(parts)
    final = root / "image" / f"{series}-{key[:16]}"
    with locked(root / "build.lock"):
        disk = filler_disk()
        if not (final / "manifest.json").exists():
            _build_into(final, parts, root / "deb", lambda what, step: tell(stage, what, step, _STEPS))
    tell(stage, "ready", _STEPS, _STEPS)
    manifest = json.loads((final / "manifest.json").read_text())
    return Image(final / "vmlinuz", final / "initrd", manifest["release"], disk)


def _packages(series: str, known: Path) -> tuple[Package, Package]:
    """The newest kernel and guest agent packages."""

    def ask() -> dict[str, Any]:
        kernel, agent = kernel_package(series), offered(AGENT_PACKAGE)
        return {"kernel": [kernel.name, kernel.version], "agent": [agent.name, agent.version]}

    return asked(known, ask, lambda found: (Package(*found["kernel"]), Package(*found["agent"])))


def _key(parts: _Parts) -> str:
    """Hash of all that goes into the image. A kernel's folder is named after what it was built from."""
    digest = hashlib.sha256()
    if parts.agent_program is not None:
        digest.update(parts.agent_program.read_bytes())
    for part in (parts.kernel.key, parts.agent.key, str(parts.kernel_folder), *MODULES, *APPLETS):
        digest.update(part.encode() + b"\0")
    for source in (Path(__file__), _HERE / "cpio.py", _HERE / "guest_init.sh", _HERE / "workload" / "workload.c"):
        digest.update(source.read_bytes() + b"\0")
    digest.update(Path(find("busybox")).read_bytes())
    return digest.hexdigest()


def _build_into(final: Path, parts: _Parts, debs: Path, tell: Callable[[str, int], None]) -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent) as scratch_name:
        scratch = Path(scratch_name)
        if parts.kernel_folder is None:
            tell(f"fetching {parts.kernel.name}", 1)
            kernel_deb = fetch(parts.kernel, debs)
            tell("unpacking the kernel", 2)
            unpack(kernel_deb, scratch / "kernel")
            (vmlinuz,) = (scratch / "kernel" / "boot").glob("vmlinuz-*")
            release = vmlinuz.name.removeprefix("vmlinuz-")
            modules = modules_of(scratch / "kernel", release)
        else:
            # Ours has its drivers built in.
            vmlinuz, release, modules = parts.kernel_folder / "bzImage", parts.kernel_folder.name, []
        tell("fetching the guest agent", 3)
        unpack(fetch(parts.agent, debs), scratch / "agent")
        if parts.agent_program is not None:
            shutil.copy(parts.agent_program, scratch / "agent" / "usr" / "sbin" / "qemu-ga")
        tell("compiling the workload", 4)
        workload = scratch / "workload"
        compile_workload(workload)
        tell("packing", 5)
        ready = scratch / "ready"
        ready.mkdir()
        archive = _archive(scratch, modules, workload.read_bytes(), debs)
        (ready / "initrd").write_bytes(gzip.compress(archive, 9, mtime=0))
        shutil.copyfile(vmlinuz, ready / "vmlinuz")
        (ready / "manifest.json").write_text(json.dumps({"release": release}))
        shutil.rmtree(final, ignore_errors=True)
        ready.rename(final)


def _archive(scratch: Path, modules: list[Path], workload: bytes, debs: Path) -> bytes:
    archive = Archive()
    for directory in ("proc", "sys", "dev", "run", "tmp", "etc", "root", "var/log", "usr/bin", "usr/sbin"):
        archive.directory(directory)
    archive.character_device("dev/console", 5, 1)
    archive.file("init", (_HERE / "guest_init.sh").read_bytes(), 0o755)
    archive.file("sbin/workload", workload, 0o755)
    archive.file("bin/busybox", Path(find("busybox")).read_bytes(), 0o755)
    for applet in APPLETS:
        archive.link(f"bin/{applet}", "busybox")
    # What the guest agent runs for guest-shutdown; an initramfs has no init system to ask.
    archive.file("sbin/shutdown", b"#!/bin/sh\nexec /bin/poweroff -f\n", 0o755)
    names = []
    for module in modules:
        content = module.read_bytes()
        if module.suffix == ".xz":
            content = lzma.decompress(content)
        name = module.name.removesuffix(".xz")
        names.append(name)
        archive.file(f"lib/modules/{name}", content)
    archive.file("etc/modules", "".join(f"{name}\n" for name in names).encode())
    agent = scratch / "agent" / "usr" / "sbin" / "qemu-ga"
    archive.file("sbin/qemu-ga", agent.read_bytes(), 0o755)
    for wanted, library in libraries(agent, scratch / "agent", debs):
        archive.file(wanted, library.read_bytes(), 0o755)
    return archive.content()


def compile_workload(program: Path) -> None:
    """The workload, which needs no library."""
    run(
        ["gcc", "-O2", "-static", "-Wall", "-s", "-o", str(program), str(_HERE / "workload" / "workload.c")],
        "compiling the workload",
        ImageError,
    )


def modules_of(kernel_root: Path, release: str, names: Sequence[str] = MODULES) -> list[Path]:
    """Files of the named drivers and what they need, in the order to load them. A driver that is built in has none."""
    if not (kernel_root / "lib" / "modules").exists():
        (kernel_root / "lib").mkdir(exist_ok=True)
        (kernel_root / "lib" / "modules").symlink_to("../usr/lib/modules")
    run(["depmod", "-b", str(kernel_root), release], "depmod", ImageError)
    found: list[Path] = []
    for name in names:
        text = run(
            ["modprobe", "-S", release, "-d", str(kernel_root), "--show-depends", name], f"module {name}", ImageError
        )
        for path in re.findall(r"^insmod (\S+)", text, re.MULTILINE):
            if Path(path) not in found:
                found.append(Path(path))
    return found


def libraries(
    program: Path, root: Path, debs: Path, packages: Sequence[str] = (AGENT_PACKAGE,)
) -> list[tuple[str, Path]]:
    """(path in the guest, file here) of the shared libraries of `program`, from here or unpacked into `root` out of
    what `packages` depend on."""
    unpacked = False
    while True:
        folders = ":".join(str(folder) for folder in (root / "usr/lib/x86_64-linux-gnu", root / "lib/x86_64-linux-gnu"))
        text = run(
            ["ldd", str(program)],
            f"shared libraries of {program.name}",
            ImageError,
            env={"LD_LIBRARY_PATH": folders, "LC_ALL": "C"},
        )
        missing = re.findall(r"^\s*(\S+) => not found", text, re.MULTILINE)
        if not missing:
            break
        if unpacked:
            raise ImageError(f"{program.name} needs {', '.join(missing)}, which no package it depends on has")
        for name in {name for package in packages for name in dependencies(package)}:
            found_package = candidate(name)
            if found_package is not None and found_package.name != "libc6":
                unpack(fetch(found_package, debs), root)
        unpacked = True
    found = []
    for path in re.findall(r"(?:=> )?(/\S+) \(0x", text):
        file = Path(path)
        # The loader has its path compiled into the program; everything else is found by name in the default folder.
        in_guest = path if file.name.startswith("ld-linux") else f"/lib/x86_64-linux-gnu/{file.name}"
        found.append((in_guest, file.resolve()))
    return found


def filler_disk() -> Path:
    """A file that holds no blocks: reading it costs the machine nothing and fills the guest's page cache with zeros."""
    path = cache_dir() / "lab" / "cache-filler.raw"
    if not path.exists() or path.stat().st_size != DISK_SIZE:
        with path.open("wb") as file:
            file.truncate(DISK_SIZE)
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One build at a time: labs that start side by side share the cache."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
