"""QEMUs that run no guest: their memory is filled from the host, and their monitor is spoken to without libvirt.

To KSM a page is a page, whoever wrote it. Emulated guests would take the CPU that is measured, and hold it up.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.precondition import require
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.objects.domain import DomainFacts, DomainObservation, DomainState, ProcessMemory
from memhint.virt.errors import LibvirtCallFailed, MonitorCommandUnknown
from memhint.virt.monitor import Monitor

PAGE = 4096
BACKEND = "/objects/mem"
_START = 60.0  # seconds for a QEMU to answer


class SocketMonitor(Monitor):
    """memhint's own words to QEMU, over its socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        until = time.monotonic() + _START
        while True:
            try:
                self._socket.connect(str(path))
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        self._file = self._socket.makefile("rw")
        self._file.readline()  # its greeting
        self._execute("qmp_capabilities")

    def _execute(self, command: str, **arguments: object) -> object:
        self._file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._file.flush()
        while True:
            answer: dict[str, Any] = json.loads(self._file.readline())
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                kind = MonitorCommandUnknown if answer["error"]["class"] == "CommandNotFound" else LibvirtCallFailed
                raise kind(f"{command}: {answer['error']['desc']}")

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()


@dataclass(frozen=True, slots=True)
class PausedVm:
    """One of them."""

    name: str
    pid: int
    size: int  # bytes
    monitor: SocketMonitor

    def fill(self, pages: Sequence[bytes]) -> None:
        """Write its memory, from its beginning on."""
        address = self.monitor.memory_blocks()[BACKEND].address
        memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR)
        try:
            for at in range(0, len(pages), 256):
                part = b"".join(pages[at : at + 256])
                written = os.pwrite(memory, part, address + at * PAGE)
                require(written == len(part), f"{self.name} took {written} of {len(part)} bytes")
        finally:
            os.close(memory)

    def process(self) -> ProcessMemory:
        """What the host's kernel says of it."""
        return process_memory(KernelRoot(), self.pid)

    def observed(self) -> DomainObservation:
        """As the agent would see it."""
        return DomainObservation(
            self.name, self.name, DomainState.RUNNING, DomainFacts(memory=self.size), process=self.process()
        )


@contextmanager
def paused_vms(
    program: Path, folder: Path, count: int, size: int, name: str = "vm", merge: bool = True
) -> Iterator[list[PausedVm]]:
    """So many QEMUs with so many bytes each, none of which may merge yet. They end with the body.

    :param merge: what their definition says of their memory. With False their QEMUs mark it all the same
    """
    started: list[subprocess.Popen[bytes]] = []
    vms: list[PausedVm] = []
    try:
        for number in range(count):
            path = folder / f"{name}-{number}.qmp"
            command = [str(program), "-S", "-nodefaults", "-display", "none", "-accel", "tcg,tb-size=1"]
            command += ["-machine", "pc,memory-backend=mem", "-m", f"{size >> 20}M"]
            command += ["-object", f"memory-backend-ram,id=mem,size={size},merge={'on' if merge else 'off'}"]
            command += ["-qmp", f"unix:{path},server=on,wait=off"]
            started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
            vms.append(PausedVm(f"{name}-{number}", started[-1].pid, size, SocketMonitor(path)))
        for vm in vms:
            vm.monitor.set(BACKEND, "merge", False)
        yield vms
    finally:
        for vm in vms:
            vm.monitor.close()
        for process in started:
            process.kill()
            process.wait()
