"""A guest with a kernel under test: QEMU, an initramfs with busybox, and a shell on a port of virtio-serial."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lab.cpio import Archive
from lab.machine import machine_of
from lab.patience import Patience

PROGRAMS = Path(__file__).resolve().parent.parent / "kernel/tests"
MIB = 1 << 20
PAGES_PER_MIB = MIB // 4096
PARAMETERS = "/sys/module/page_reporting/parameters"
# Emulation is slow: waiting ends when the condition holds, this only bounds a failure. Of time that the guest had.
PATIENCE = 180.0
# Free memory that a pass may leave: what is split after it waits for the next page to be freed.
FEW_PAGES = 16 * PAGES_PER_MIB
# Blocks that the kernel reports at a time, at most, and that a zone has to be able to do without.
BATCH = 32
# Much longer than a pass takes to come, with the delays of the tests.
STUCK = 5.0
# An emulated processor gets its turn late on a busy machine: only one that stands for minutes is stuck.
LATE = "rcupdate.rcu_cpu_stall_timeout=300"
TROUBLE = re.compile(r"BUG:|WARNING:|Oops|INFO: |Call Trace|Kernel panic|page dumped")


# How the lines begin by which the guest says what it has read, and with which status that ended.
READ, ENDED = "--- ", "=== "
LONGEST_LINE = 4096


class GuestError(Exception):
    """The guest did not do what it was told."""


class Corrupted(GuestError):
    """The guest has another content in its memory than was put there."""


def wait_until(
    condition: Callable[[], Any], what: str, process: subprocess.Popen[bytes], patience: float = PATIENCE
) -> Any:
    """The first true value of `condition`. Raises GuestError when QEMU had `patience` seconds, or has ended."""
    deadline = Patience(patience, process.pid)
    while True:
        value = condition()
        if value:
            return value
        if process.poll() is not None:
            raise GuestError(f"QEMU ended with {process.returncode}, waiting for {what}")
        if not deadline.left():
            raise GuestError(f"gave up after {patience:.0f} s waiting for {what}")
        time.sleep(0.05)


class Line:
    """A socket of QEMU that speaks in lines."""

    def __init__(self, path: Path, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.socket = wait_until(lambda: self.connect(path), path.name, process)
        self.buffer = b""

    @staticmethod
    def connect(path: Path) -> socket.socket | None:
        """A connection, or None if nobody listens yet."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError:
            connection.close()
            return None
        return connection

    def write(self, text: str) -> None:
        """Send one line."""
        self.socket.sendall(text.encode() + b"\n")

    def read(self, patience: float = PATIENCE) -> str:
        """Receive one line."""
        deadline = Patience(patience, self.process.pid)
        while b"\n" not in self.buffer:
            left = deadline.left()
            ready, _, _ = select.select([self.socket], [], [], left)
            if not ready:
                if left:
                    continue
                raise GuestError("no answer from the guest")
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                raise GuestError("the guest is gone")
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")


def initramfs(into: Path, image: Path) -> Path:
    """An initramfs with busybox, the test programs and the shell loop.

    Of another architecture, MEMHINT_BUSYBOX names the busybox, and MEMHINT_COMPILER what compiles for it.
    """
    root = into / "root"
    (root / "bin").mkdir(parents=True)
    busybox = os.environ.get("MEMHINT_BUSYBOX") or shutil.which("busybox")
    if busybox is None:
        raise GuestError("there is no busybox here: install busybox-static")
    shutil.copy(busybox, root / "bin/busybox")
    shutil.copy(PROGRAMS / "init", root / "init")
    for program in image.iterdir():
        if program.is_file() and os.access(program, os.X_OK):  # the series' own tests
            shutil.copy(program, root / "bin" / program.name)
    options = ["-static", "-O2", "-Wall", "-Werror", "-o", f"{root}/bin/memory"]
    subprocess.run([os.environ.get("MEMHINT_COMPILER", "gcc"), *options, f"{PROGRAMS}/memory.c"], check=True)
    archive = Archive()
    archive.tree(root)
    initrd = into / "initramfs"
    initrd.write_bytes(archive.content())
    return initrd


def accelerator() -> str:
    """Emulation, which works everywhere, unless MEMHINT_ACCEL says kvm."""
    return os.environ.get("MEMHINT_ACCEL", "tcg")


class Guest:
    """A running guest, with a balloon that reports free pages to the host unless it is to have none."""

    def __init__(
        self,
        image: Path,
        *,
        mib: int = 2048,
        arguments: str = "",
        balloon: bool = True,
        hotplug_mib: int = 0,
        machine: str | None = None,
        cpus: int = 2,
        emulator: str | Path | None = None,
        properties: str = "",
        words: Sequence[str] = (),
    ) -> None:
        """:param words: more for the command line of its QEMU"""
        self.folder = Path(tempfile.mkdtemp(prefix="memhint-guest-"))
        self.console = self.folder / "console"
        built_for = machine_of(image)
        command = [str(emulator or built_for.emulator), "-accel", accelerator()]
        command += ["-M", machine or built_for.name, "-cpu", built_for.cpu]
        command += ["-smp", str(cpus)]
        command += ["-m", f"{mib}M" + (f",maxmem={mib + hotplug_mib}M" if hotplug_mib else "")]
        # It starts once the shell's port has us at its other end: what it says before that would be lost.
        command += ["-nodefaults", "-no-reboot", "-display", "none", "-S"]
        command += ["-kernel", str(image / built_for.kernel)]
        command += ["-initrd", str(initramfs(self.folder, image))]
        command += ["-append", f"console={built_for.console} panic=-1 quiet no_timer_check {LATE} {arguments}"]
        command += ["-serial", f"file:{self.console}"]
        # Not a serial port: this is faster, and can make whoever writes wait.
        command += ["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=shell"]
        command += ["-chardev", f"socket,id=shell,path={self.folder}/shell,server=on,wait=off"]
        command += ["-qmp", f"unix:{self.folder}/qmp,server=on,wait=off"]
        if balloon:
            command += ["-device", f"virtio-balloon-pci,id=balloon0,free-page-reporting=on{properties}"]
        if hotplug_mib:
            command += ["-object", f"memory-backend-ram,id=added,size={hotplug_mib}M"]
            command += ["-device", "virtio-mem-pci,id=mem0,memdev=added,requested-size=0"]
        self.process = subprocess.Popen([*command, *words], stdin=subprocess.DEVNULL)
        try:
            self.shell = Line(self.folder / "shell", self.process)
            self.monitor = Line(self.folder / "qmp", self.process)
            self.monitor.read()
            self.qmp("qmp_capabilities")
            self.qmp("cont")
            self.wait_until(lambda: self.shell.read() == "ready", "the guest to boot")
        except GuestError as error:
            log = self.console.read_text(errors="replace")[-2000:] if self.console.exists() else ""
            self.close()
            raise GuestError(f"{error}; its console:\n{log}") from None

    def wait_until(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """The first true value of `condition`. Raises GuestError when the guest had `patience` seconds for it."""
        return wait_until(condition, what, self.process, patience)

    def close(self) -> None:
        """End the guest; its files go with it."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def trouble(self) -> list[str]:
        """Complaints of the guest's kernel."""
        lines = self.console.read_text(errors="replace").splitlines()
        return [line for line in lines if TROUBLE.search(line)]

    def qmp(self, command: str, **arguments: Any) -> Any:
        """Run a command of QEMU's monitor."""
        self.monitor.write(json.dumps({"execute": command, "arguments": arguments}))
        while True:
            answer = json.loads(self.monitor.read())
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise GuestError(f"{command}: {answer['error']}")

    # Host side

    def resident_mib(self) -> int:
        """Host memory behind the guest, QEMU's own included. What a busy host swapped out has not been given back."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.findall(r"^Vm(?:RSS|Swap):\s+(\d+) kB", text, re.MULTILINE)
        assert found
        return sum(map(int, found)) // 1024

    # Guest side

    def try_run(self, line: str, *, sent: int = 0) -> tuple[int, str]:
        """Status and output of a shell line in the guest, which tells first what it has read.

        Raises Corrupted when that is not what was sent: nothing gets lost on the way, so its memory is not right.

        :param sent: characters of it that are on their way already
        """
        assert "\n" not in line
        assert len(line) < LONGEST_LINE
        self.shell.write(line[sent:])
        before: list[str] = []
        while not (got := self.shell.read()).startswith(READ):
            before.append(got)  # of what runs beside the shell
        if got != READ + line:
            raise Corrupted(f"the guest was sent {line!r}, and has read {got.removeprefix(READ)!r} (before: {before})")
        output: list[str] = []
        while not (got := self.shell.read()).startswith(ENDED):
            output.append(got)
        return int(got.removeprefix(ENDED)), "\n".join(output)

    def run(self, line: str) -> str:
        """Output of a shell line that has to succeed."""
        status, output = self.try_run(line)
        if status:
            raise GuestError(f"{line}: status {status}: {output}")
        return output

    def get(self, name: str) -> str:
        """A parameter of page reporting."""
        return self.run(f"cat {PARAMETERS}/{name}")

    def set(self, **values: object) -> None:
        """Set parameters of page reporting."""
        for name, value in values.items():
            self.run(f"echo {value} > {PARAMETERS}/{name}")

    def pause(self) -> None:
        """Turn reporting off, and wait for the batch that may be under way: the kernel does not."""
        self.set(enabled=0)
        seen = "grep page_report_batch /proc/vmstat"
        still = f'a=$({seen}); usleep 300000; [ "$a" = "$({seen})" ]'
        self.wait_until(lambda: self.try_run(still)[0] == 0, "the batch under way to end")

    def vmstat(self) -> dict[str, int]:
        """All of /proc/vmstat."""
        return {key: int(value) for key, value in (line.split() for line in self.run("cat /proc/vmstat").splitlines())}

    def counter(self, name: str) -> int:
        """One line of /proc/vmstat."""
        return self.vmstat()[name]

    def unreported(self) -> int:
        """Free pages in blocks of the order that is reported which are not counted as reported.

        What a pass has in its hands is neither: it may be missing here, and be reported a moment later. A zone that has
        little free memory, as ZONE_DMA does, is left out: nothing of it is reported.
        """
        counters = "grep -E '^Node| low | nr_free_reported ' /proc/zoneinfo"
        order, *lines = self.run(f"cat {PARAMETERS}/page_reporting_order /proc/buddyinfo; {counters}").splitlines()
        blocks: dict[str, list[int]] = {}
        counted: dict[str, dict[str, int]] = {}
        here: dict[str, int] = {}
        for line in lines:
            if not (zone := re.fullmatch(r"(Node \d+, zone +\w+)([ \d]*)", line)):
                name, value = line.split()
                here[name] = int(value)
            elif numbers := zone[2].split():
                blocks[zone[1]] = [int(nr) << at for at, nr in enumerate(numbers)]
            else:
                here = counted.setdefault(zone[1], {})
        return sum(
            sum(free[int(order) :]) - counted[zone]["nr_free_reported"]
            for zone, free in blocks.items()
            if sum(free) > counted[zone]["low"] + (BATCH << int(order))
        )

    def walked(self) -> int:
        """Reported pages as /proc/kpageflags shows them, counted independently of the kernel's counter."""
        return int(self.run("memory walk"))

    def hold(self, mib: int) -> None:
        """Use memory until released."""
        self.run(f"memory hold {mib} > /tmp/held & echo $! > /tmp/holder")
        self.wait_until(lambda: self.try_run("grep -q held /tmp/held")[0] == 0, f"the guest to use {mib} MiB")

    def release(self) -> None:
        """Free what is held."""
        self.run("kill $(cat /tmp/holder); wait; rm -f /tmp/held /tmp/holder")

    def drained(self) -> None:
        """Wait until all that can be reported is, but for what a pass that is under way has in its hands."""
        asked = time.monotonic()

        def done() -> bool:
            nonlocal asked
            left = self.unreported()
            # The shell may split a large block for a small page after the last pass. What is left of that block was not
            # freed, so no pass comes for it: ask for one.
            if 0 < left <= FEW_PAGES and time.monotonic() > asked + STUCK:
                self.set(enabled=0)
                self.set(enabled=1)
                asked = time.monotonic()
            return left <= 0

        self.wait_until(done, "all free blocks to be reported")

    def pause_drained(self) -> None:
        """Turn reporting off at a moment in which all that can be reported is."""

        def done() -> bool:
            self.set(enabled=1)
            self.drained()
            self.pause()
            # Nothing is under way any more: what is left now was left behind.
            return self.unreported() <= 0

        self.wait_until(done, "all free blocks to be reported, and reporting to be off")


def image_folder(variable: str = "MEMHINT_KERNEL") -> Path:
    """The kernel under test, as kernel/build made it."""
    if variable not in os.environ:
        raise GuestError(f"{variable} does not name a kernel: start the tests with kernel/tests/run")
    return Path(os.environ[variable])


def manifest() -> dict[str, Any]:
    """How the kernel under test was built."""
    found: dict[str, Any] = json.loads((image_folder() / "manifest.json").read_text())
    return found
