"""A virtual host: a machine of its own kernel and with cgroup v2, for what the machine at hand does not have.

It boots the distribution's kernel into an initramfs with Python, cryptsetup and the checkout's code, has disks to swap
on, and calls Python functions inside for the tests outside.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import marshal
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any

from lab import leftovers
from lab.cpio import Archive
from lab.emulated_cpu import CLOCK, EMULATED_CPU
from lab.errors import BootError, ImageError, WorkError
from lab.image import APPLETS, libraries, locked, modules_of
from lab.packages import Package, asked, dependencies, fetch, kernel_package, offered, unpack
from lab.paths import cache_dir
from lab.programs import find, run
from lab.sizes import MIB
from lab.started import Started
from lab.work_channel import WorkChannel

KERNEL = "6.12"
MODULES = ("virtio_pci", "virtio_console", "virtio_blk", "dm_crypt", "xts", "aes_generic", "ecb", "aesni_intel")
BOOT_DEADLINE = 300.0
_TORN = "Oops: int3"
"""How a kernel ends, now and then as it boots, that met an instruction which another emulated processor was changing.
The processors are threads then; where one thread runs them in turn it cannot be."""
CALL_DEADLINE = 600.0
_PORT = "memhint.lab.0"
# What an emulated processor need not be guarded against, and what its kernel need not test at each boot.
_QUICK = "mitigations=off cryptomgr.notests"
_DOUBTED_CLOCK = "no_timer_check tsc=unstable"
"""Emulated timers are late under load: these words keep a kernel from testing its timers, and from telling the time by
the TSC. It finds out at boot how fast that one counts. On a machine that is busy just then it may find a few times too
little, and its clock goes a few times too fast for as long as it runs.

Where time goes on with each instruction, what is found out is right, and the TSC is read with the fewest of them.
"""
_QEMU = ("qemu-system-x86", "qemu-system-common")
_CHECKOUT = Path(__file__).resolve().parent.parent
_CODE = (
    "memhint/__init__.py", "memhint/objects", "memhint/kernel", "memhint/levers", "memhint/planner",
    # what levers need of it; the rest loads libvirt
    "memhint/virt/__init__.py", "memhint/virt/errors.py", "memhint/virt/memory_blocks.py",
)  # fmt: skip
_HERE = Path(__file__).resolve().parent
# Of Python's library, what nothing here imports and would only have to be unpacked at each boot.
_LEFT_OUT = (
    "test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter", "turtledemo", "pydoc_data", "distutils", "sqlite3",
    "asyncio", "xml", "email", "http", "curses", "dbm", "wsgiref", "xmlrpc", "multiprocessing", "venv", "__pycache__",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node of a virtual host."""

    memory: int
    """Bytes."""
    cpus: str = ""
    """As "0" or "0-1"; a node without is told to the kernel (ACPI's HMAT) as slow memory of node 0, a tier of its own.

    Only the kernel believes it: emulated memory is equally fast everywhere.
    """


class VirtualHost(Started):
    """A running machine; use it in a with statement."""

    def __init__(
        self,
        files: Sequence[Path],
        memory: int = 512 * MIB,
        disks: Mapping[str, int] | None = None,
        qemu: bool = False,
        nodes: Sequence[Node] = (),
        cpus: int = 2,
        words: Sequence[str] = (),
        counted: bool = False,
        kernel: Path | None = None,
    ) -> None:
        """:param files: go to /inside; those that are Python can be called by their names
        :param memory: bytes
        :param disks: name and bytes of empty disks, /dev/vda first
        :param qemu: with qemu-system-x86_64 inside, which takes 50 MiB of the memory; it emulates within emulation
        :param words: more for the command line of its QEMU
        :param nodes: NUMA nodes, which must add up to `memory`; else there is one with everything
        :param counted: its clock goes on by a nanosecond with each instruction of either processor, so that what it
            times does not depend on the machine at hand; while both wait it goes on by itself
        :param kernel: a bzImage with all drivers built in, instead of the distribution's kernel; without a network and
            without encryption when it is that of kernel/build --series host
        """
        if nodes and sum(node.memory for node in nodes) != memory:
            raise ValueError("the nodes' memory does not add up to the machine's")
        self._files = tuple(files)
        self._with_qemu = qemu
        self._counted = counted
        self._kernel = kernel
        self._memory = memory
        self._nodes = tuple(nodes)
        self._cpus = cpus
        self._words = tuple(words)
        self._disks = dict(disks or {})
        self._folder = leftovers.scratch("vhost")
        self._channel = WorkChannel(self._folder / "work.sock", "virtual host")
        self._qemu: subprocess.Popen[bytes] | None = None

    @property
    def console(self) -> str:
        """What the kernel and the first process have printed."""
        file = self._folder / "console.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def start(self) -> None:
        """Boot, and wait until it answers.

        :raises BootError: when it does not
        """
        try:
            self._boot("single" if self._counted else "multi")
        except BootError:
            if self._counted or _TORN not in self.console:
                raise
            self._end()
            self._boot("single")

    def _boot(self, threads: str) -> None:
        image = _image(cache_dir() / "lab")
        kernel, initrd = self._kernel or image / "vmlinuz", self._folder / "initrd"
        with initrd.open("wb") as out:
            for part in ("base", "qemu") if self._with_qemu else ("base",):
                out.write((image / part).read_bytes())
            # The kernel unpacks one archive after the other: what changes with the checkout comes last.
            out.write(self._code())
        command = [
            find("qemu-system-x86_64"), "-accel", f"tcg,thread={threads}",
            "-cpu", EMULATED_CPU, "-M", "pc", "-smp", str(self._cpus),
            "-m", str(self._memory // MIB), "-nodefaults", "-no-reboot", "-display", "none",
            "-kernel", str(kernel), "-initrd", str(initrd),
            "-append", f"console=ttyS0 quiet panic=-1 psi=1 {_QUICK} {CLOCK if self._counted else _DOUBTED_CLOCK}",
            "-serial", f"file:{self._folder / 'console.log'}",
            "-device", "virtio-serial-pci",
            "-chardev", f"socket,id=work,path={self._folder / 'work.sock'},server=on,wait=off",
            "-device", f"virtserialport,chardev=work,name={_PORT}",
        ]  # fmt: skip
        command += [*numa(self._nodes), *(["-icount", "shift=0"] if self._counted else []), *self._words]
        for name, size in self._disks.items():
            disk = self._folder / f"{name}.raw"
            with disk.open("wb") as file:
                file.truncate(size)
            command += ["-drive", f"if=virtio,format=raw,cache=unsafe,file={disk}"]
        self._qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            self.call("time.monotonic", deadline=BOOT_DEADLINE)
        except WorkError as reason:
            raise BootError(str(reason)) from reason

    def call(self, function: str, deadline: float = CALL_DEADLINE, **arguments: Any) -> Any:
        """What ``MODULE.FUNCTION`` returned inside; WorkError carries its traceback, and how the console ends."""
        try:
            answer = self._channel.request(f"{function} {json.dumps(arguments)}", deadline, self.running)
        except WorkError as reason:
            raise WorkError(f"{reason}\nits console:\n{self.console[-3000:]}") from reason
        return answer.get("result")

    def running(self) -> bool:
        """Whether its QEMU is there."""
        return self._qemu is not None and self._qemu.poll() is None

    def close(self) -> None:
        """End it; its files go with it."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        if self._qemu is not None:
            with suppress(ProcessLookupError):
                self._qemu.kill()
            self._qemu.wait()

    def _code(self) -> bytes:
        archive = Archive()
        for part in _CODE:
            path = _CHECKOUT / part
            for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
                archive.file(f"inside/{file.relative_to(_CHECKOUT)}", file.read_bytes())
                compiled = Path(cache_from_source(str(file.relative_to(_CHECKOUT))))
                archive.file(f"inside/{compiled}", compiled_file(file))
        # Inside no record is decoded, so what its annotations come from need not be there in earnest.
        archive.file(
            "inside/msgspec.py", b"class Meta:\n    def __init__(self, **ranges):\n        self.ranges = ranges\n"
        )
        for name in ("virtual_host_server.py", "memory_ledger.py"):
            archive.file(f"inside/lab/{name}", (_HERE / name).read_bytes())
        for file in self._files:
            archive.file(f"inside/{file.name}", file.read_bytes(), file.stat().st_mode & 0o777)
        return archive.content()


def compiled_file(source: Path) -> bytes:
    """A module as Python keeps it compiled, to be taken without a look at the source: compiling takes an emulated
    processor twenty times as long. A Python of another version inside looks for another name, and compiles."""
    code = SourceFileLoader(source.stem, str(source)).get_code(source.stem)
    unchecked = (1).to_bytes(4, "little")
    return MAGIC_NUMBER + unchecked + bytes(8) + marshal.dumps(code)


def numa(nodes: Sequence[Node]) -> list[str]:
    """QEMU's words for NUMA nodes; none for none."""
    if not nodes:
        return []
    slow = any(not node.cpus for node in nodes)
    words = ["-machine", "hmat=on"] if slow else []
    for place, node in enumerate(nodes):
        cpus = f",cpus={node.cpus}" if node.cpus else ""
        initiator = ",initiator=" + str(place if node.cpus else 0) if slow else ""
        words += ["-object", f"memory-backend-ram,id=node{place},size={node.memory}"]
        words += ["-numa", f"node,nodeid={place},memdev=node{place}{cpus}{initiator}"]
    for place, node in enumerate(nodes):
        for other in range(place + 1, len(nodes)):
            words += ["-numa", f"dist,src={place},dst={other},val=20"]
        if slow:
            # nanoseconds, and bytes per second: those of DRAM, and of memory behind CXL
            latency, bandwidth = (80, "50G") if node.cpus else (200, "20G")
            near = place if node.cpus else 0
            where = f"hmat-lb,initiator={near},target={place},hierarchy=memory"
            words += ["-numa", f"{where},data-type=access-latency,latency={latency}"]
            words += ["-numa", f"{where},data-type=access-bandwidth,bandwidth={bandwidth}"]
    return words


@cache
def _image(root: Path) -> Path:
    """The folder with kernel (vmlinuz) and archives (base, qemu), built unless there is one below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    packages = _packages(root / f"virtual-host-packages-{KERNEL}.json")
    digest = hashlib.sha256()
    for part in (*(package.key for package in packages), *MODULES, *APPLETS, *_LEFT_OUT):
        digest.update(part.encode() + b"\0")
    for source in (Path(__file__), _HERE / "cpio.py", _HERE / "image.py", _HERE / "virtual_host_init.sh"):
        digest.update(source.read_bytes() + b"\0")
    final = root / "virtual-host" / digest.hexdigest()[:16]
    with locked(root / "build.lock"):
        if not final.exists():
            _build(final, packages, root / "deb")
    return final


def _packages(known: Path) -> list[Package]:
    """The newest of all that goes into it, kernel first."""

    def ask() -> dict[str, Any]:
        found = [kernel_package(KERNEL), *_python(), *map(offered, ("cryptsetup-bin", *_QEMU))]
        return {"packages": [[one.name, one.version] for one in found]}

    return asked(known, ask, lambda found: [Package(*one) for one in found["packages"]])


def _python() -> list[Package]:
    """The packages of the distribution's Python: interpreter, and both halves of its library."""
    (interpreter,) = (name for name in dependencies("python3-minimal") if name.startswith("python3."))
    version = interpreter.removesuffix("-minimal")
    return [offered(name) for name in (interpreter, f"lib{version}-minimal", f"lib{version}-stdlib")]


def _build(final: Path, packages: list[Package], debs: Path) -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=final.parent) as scratch_name:
        scratch = Path(scratch_name)
        kernel, *others = packages
        unpack(fetch(kernel, debs), scratch / "kernel")
        for package in others:
            unpack(fetch(package, debs), scratch / "root")
        (vmlinuz,) = (scratch / "kernel" / "boot").glob("vmlinuz-*")
        modules = modules_of(scratch / "kernel", vmlinuz.name.removeprefix("vmlinuz-"), MODULES)
        archive = Archive()
        for directory in ("proc", "sys", "dev", "run", "tmp", "etc", "root", "usr/bin", "usr/sbin"):
            archive.directory(directory)
        archive.character_device("dev/console", 5, 1)
        archive.file("init", (_HERE / "virtual_host_init.sh").read_bytes(), 0o755)
        archive.file("bin/busybox", Path(find("busybox")).read_bytes(), 0o755)
        for applet in (*APPLETS, "mkswap", "swapon", "swapoff"):
            archive.link(f"bin/{applet}", "busybox")
        names = []
        for module in modules:
            content = module.read_bytes()
            names.append(module.name.removesuffix(".xz"))
            archive.file(f"lib/modules/{names[-1]}", lzma.decompress(content) if module.suffix == ".xz" else content)
        archive.file("etc/modules", "".join(f"{name}\n" for name in names).encode())
        _add_python(archive, scratch / "root", debs, packages[1].name)
        cryptsetup = scratch / "root" / "sbin" / "cryptsetup"
        archive.file("sbin/cryptsetup", cryptsetup.read_bytes(), 0o755)
        for wanted, library in libraries(cryptsetup, scratch / "root", debs, ("cryptsetup-bin", "libcryptsetup12")):
            archive.file(wanted, library.read_bytes(), 0o755)
        ready = scratch / "ready"
        ready.mkdir()
        # Not compressed: emulation unpacks slowly, and this is read from the page cache.
        (ready / "base").write_bytes(archive.content())
        (ready / "qemu").write_bytes(_qemu_archive(scratch / "root", debs))
        shutil.copyfile(vmlinuz, ready / "vmlinuz")
        ready.rename(final)


def _qemu_archive(root: Path, debs: Path) -> bytes:
    """QEMU with its emulator, which the distribution packages as modules."""
    archive = Archive()
    program = root / "usr" / "bin" / "qemu-system-x86_64"
    archive.file("usr/bin/qemu-system-x86_64", program.read_bytes(), 0o755)
    for module in sorted(root.rglob("accel-tcg-*.so")):
        archive.file(str(module.relative_to(root)), module.read_bytes())
    for wanted, library in libraries(program, root, debs, _QEMU):
        archive.file(wanted, library.read_bytes(), 0o755)
    return archive.content()


def _add_python(archive: Archive, root: Path, debs: Path, package: str) -> None:
    """The interpreter, and its library as compiled files: compiling it at each boot would take most of the boot."""
    version = package.removesuffix("-minimal")
    program = root / "usr" / "bin" / version
    library = root / "usr" / "lib" / version
    for name in _LEFT_OUT:
        for found in library.rglob(name):
            shutil.rmtree(found, ignore_errors=True)
    run(
        [str(program), "-E", "-S", "-m", "compileall", "-q", "-b", "--invalidation-mode", "unchecked-hash",
         "-s", str(root), str(library)],
        "compiling Python's library",
        ImageError,
        env={**os.environ, "PYTHONHOME": str(root / "usr")},
    )  # fmt: skip
    archive.file(f"usr/bin/{version}", program.read_bytes(), 0o755)
    archive.link("usr/bin/python3", version)
    for file in sorted(library.rglob("*")):
        if file.suffix in (".pyc", ".so"):
            archive.file(str(file.relative_to(root)), file.read_bytes())
    (ctypes,) = library.glob("lib-dynload/_ctypes.*.so")
    needed = dict(libraries(program, root, debs, (package,)))
    needed |= dict(libraries(ctypes, root, debs, (f"lib{version}-stdlib",)))
    for wanted, file in needed.items():
        archive.file(wanted, file.read_bytes(), 0o755)
