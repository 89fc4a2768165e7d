"""Guests under emulation whose instructions are counted, one by one, by a plugin in QEMU.

QEMU's clock follows the instructions (-icount), a guest that waits lets the clock jump, and nothing random is let in:
two runs that begin alike differ by some tens of instructions in a thousand million.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.children import Children
from bench.figures import Symbols, Window, symbols, windows
from lab.cpio import Archive
from lab.emulated_cpu import EMULATED_CPU

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
# Where the linker puts the two functions that the plugin looks out for: nothing else of a static program is there.
BEGIN, END = 0x6D650000, 0x6D651000
QEMU = "qemu-system-x86_64"
MEMORY_MIB = 1024
# Processors clear and copy with one string instruction. Without erms and fsrm it works on words, not bytes, which takes
# an eighth of the time here and is the same number of instructions.
CPU = f"{EMULATED_CPU},-rdrand,-rdseed,-erms,-fsrm"
SHIFT = 2
"""An instruction takes 2 to its power nanoseconds of the guest's time: 250 million a second, a tenth of what processors
have or less. Passes of reporting come ten times as often per instruction, which overstates what they cost."""
CODE_MIB = 256
"""For translated code. QEMU reserves a GiB unless told otherwise, which a locked one would have to fill."""
REFUSED = "Failed to discard range"
"""What QEMU says when the host does not take memory back that was reported."""
FIXED = "console=ttyS0 panic=-1 quiet nokaslr norandmaps tsc=reliable"
PATIENCE = 900.0


VERSION = os.environ.get("MEMHINT_BENCH_KERNEL", "6.12")
"""Of the kernels whose instructions are counted, one of kernel/patches."""


class GuestFailed(Exception):
    """A guest could not be built, booted or understood; the text says which."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as kernel/build made it."""

    series: str
    folder: Path
    symbols: Symbols


def has_series(series: str, version: str = VERSION) -> bool:
    """Whether there are such patches for a version; none and `stats` are there for all."""
    return series in ("none", "stats") or (CHECKOUT / "kernel/patches" / version / f"series.{series}").exists()


def kernel(series: str, version: str = VERSION) -> Kernel:
    """A kernel of one series, built unless the cache has it: minutes the first time. Raises GuestFailed."""
    command = [str(CHECKOUT / "kernel" / "build"), "--version", version, "--series", series]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode or not done.stdout.split():
        raise GuestFailed(f"this kernel could not be built; try it alone: {' '.join(command)}")
    folder = Path(done.stdout.split()[-1])
    return Kernel(series, folder, symbols((folder / "System.map").read_text()))


def qemu_version(qemu: str) -> tuple[int, str]:
    """Major number and text of a QEMU's version. Raises GuestFailed."""
    try:
        done = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise GuestFailed(f"{qemu} does not tell its version: {error}") from None
    match = re.search(r"version ((\d+)\.[\d.]+)", done.stdout)
    if not match:
        raise GuestFailed(f"{qemu} does not tell its version: {done.stdout!r}")
    return int(match[2]), match[1]


@dataclass(frozen=True, slots=True)
class Workshop:
    """A guest's program and the plugin, built for one QEMU."""

    qemu: str
    plugin: Path
    initrd: Path
    guests: Children

    def command(
        self, kernel: Kernel, folder: Path, *, device: str, words: str, clock: str, merge: bool = False
    ) -> list[str]:
        """QEMU's command line: `console` and what was counted, `counted`, come to be in a folder.

        `device` are the balloon's properties, `words` go to the kernel's command line, `clock` is QEMU's -icount.
        `merge`: KSM may have its memory; where it runs, it makes faults of its own.
        """
        command = [self.qemu, "-accel", f"tcg,tb-size={CODE_MIB}", "-icount", clock]
        command += ["-M", f"q35,mem-merge={'on' if merge else 'off'}", "-cpu", CPU, "-smp", "1", "-m", f"{MEMORY_MIB}M"]
        command += ["-nodefaults", "-no-reboot", "-display", "none", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]
        command += ["-kernel", str(kernel.folder / "bzImage"), "-initrd", str(self.initrd)]
        command += ["-append", f"{FIXED} {words}", "-serial", f"file:{folder / 'console'}"]
        command += ["-device", f"virtio-balloon-pci,{device}"]
        command += ["-name", "counted,debug-threads=on"]  # threads by name, so that one's processor time can be told
        command += ["-plugin", f"{self.plugin},begin={BEGIN:#x},end={END:#x},out={folder / 'counted'}"]
        return command

    def run(
        self,
        kernel: Kernel,
        *,
        reporting: bool,
        words: str,
        shift: int = SHIFT,
        locked: bool = False,
        timeout: float = PATIENCE,
    ) -> list[Window]:
        """Boot, let the guest work through its windows, and return them.

        `shift`: an instruction takes 2 to the power of `shift` nanoseconds of the guest's time. `words` go to the
        kernel's command line. `locked`: QEMU locks its memory, as if for an assigned device. Raises GuestFailed, also
        when QEMU does not discard what is reported although it could, or does although its memory is locked.
        """
        with tempfile.TemporaryDirectory(prefix="memhint-count-") as scratch:
            console, counted = Path(scratch) / "console", Path(scratch) / "counted"
            device = f"free-page-reporting={'on' if reporting else 'off'}"
            command = self.command(kernel, Path(scratch), device=device, words=words, clock=f"shift={shift},sleep=off")
            if locked:
                command += ["-overcommit", "mem-lock=on"]
            with self.guests.started(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as guest:
                try:
                    _, errors = guest.communicate(timeout=timeout)
                except subprocess.TimeoutExpired:
                    raise GuestFailed(f"a guest was not done after {timeout:.0f} s: {' '.join(command)}") from None
            if guest.returncode or not counted.exists():
                raise GuestFailed(f"{' '.join(command)}: status {guest.returncode}\n{errors.strip()[-2000:]}")
            if locked != (REFUSED in errors):
                said = f"it said {errors.strip()[-200:]!r}"
                raise GuestFailed(f"QEMU {'discarded' if locked else 'could not discard'} what was reported: {said}")
            try:
                return windows(console.read_text(errors="replace"), counted.read_text(), kernel.symbols)
            except ValueError as error:
                raise GuestFailed(str(error)) from None


@contextmanager
def workshop(program: str, qemu: str = QEMU) -> Iterator[Workshop]:
    """Build a program of bench/guest for the guest, and the plugin. Raises GuestFailed."""
    major, _ = qemu_version(qemu)
    with tempfile.TemporaryDirectory(prefix="memhint-work-") as scratch:
        folder = Path(scratch)
        plugin, root = folder / "count.so", folder / "root"
        for mount_point in ("dev", "proc", "sys"):
            (root / mount_point).mkdir(parents=True)
        # The interface of plugins is 1 up to QEMU 8, and 9 asks for 2 or later. What is used of it did not change.
        _compile(
            ["-shared", "-fPIC", "-fvisibility=hidden", f"-DVERSION={1 if major < 9 else 2}"],
            HERE / "guest/count.c",
            plugin,
        )
        _compile(
            ["-static", "-pthread", f"-Wl,--section-start=.begin={BEGIN:#x},--section-start=.end={END:#x}"],
            HERE / f"guest/{program}.c",
            root / "init",
        )
        archive = Archive()
        archive.tree(root)
        initrd = folder / "initrd"
        initrd.write_bytes(archive.content())
        yield Workshop(qemu, plugin, initrd, Children())


def _compile(options: list[str], source: Path, program: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        raise GuestFailed("there is no gcc here: install build-essential")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-Werror", *options, "-o", str(program), str(source)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise GuestFailed(f"{source.name} does not compile\n{done.stderr}")
