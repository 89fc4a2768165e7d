"""A guest that builds something real while its resident memory is watched from outside, once a second."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import libvirt_qemu

from bench.counted_guest import GuestFailed
from bench.cpu import cpu_seconds
from bench.footprints import FAILED, PHASES, Track, told
from bench.idle import wait_idle
from bench.total import counted, counting, with_plugin
from lab import Guest
from lab.build_disk import BuildDisk
from lab.host import Host
from lab.programs import find

SCRIPT = Path(__file__).resolve().parent / "guest" / "build.sh"
LOOK = 0.1  # seconds between two looks at the guest's console
SAMPLE = 1.0  # seconds between two samples of resident memory


@dataclass(frozen=True, slots=True)
class Work:
    """What the guest builds, and how many seconds it rests after the build, after cleaning and at the end."""

    targets: str
    options: str
    rest: int
    patience: float
    """Seconds until one that has not come to its end counts as failed."""


class BuildingGuest:
    """One guest with the disk, its console and the counter of its instructions."""

    def __init__(self, guest: Guest, counter: Path) -> None:
        self.guest = guest
        self._counter = counter

    def wait_idle(self) -> None:
        """Until it does nothing. Raises PreconditionFailed where it never stops."""
        wait_idle(self.guest.pid())

    def run(self, work: Work) -> Track:
        """Build, rest, clean, rest, drop caches, rest. Raises GuestFailed."""
        self._start(work)
        samples: list[tuple[float, float]] = []
        began: dict[str, float] = {}
        instructions: dict[str, int] = {}
        cpu: dict[str, float] = {}
        origin, next_sample = time.monotonic(), 0.0
        while True:
            for phase in told(self.guest.console.read_text(errors="replace")):
                if phase == FAILED:
                    raise GuestFailed(f"the build failed; its console:\n{self.guest.console_tail(25)}")
                if phase not in began:
                    moment = time.monotonic()
                    if phase == PHASES[0]:
                        origin, samples, next_sample = moment, [(0.0, float(self.guest.resident()))], SAMPLE
                    began[phase] = moment - origin
                    instructions[phase], cpu[phase] = self.instructions(), self.cpu()
            at = time.monotonic() - origin
            if at >= next_sample:
                samples.append((at, float(self.guest.resident())))
                next_sample += SAMPLE
                if PHASES[-1] in began and at >= began[PHASES[-1]] + work.rest:
                    return Track(tuple(samples), began, instructions, cpu)
            if at > work.patience:
                raise GuestFailed(f"after {at:.0f} s the guest had only come to {', '.join(began) or 'nothing'}")
            time.sleep(LOOK)

    def instructions(self) -> int:
        """Those the guest has executed since it was started."""
        return counted(self._counter)

    def cpu(self) -> float:
        """Seconds of CPU its QEMU has taken."""
        return cpu_seconds(self.guest.pid())

    def _start(self, work: Work) -> None:
        arguments = ["-c", SCRIPT.read_text(), "build", str(work.rest), work.targets, work.options]
        request = {"execute": "guest-exec", "arguments": {"path": "/bin/sh", "arg": arguments}}
        libvirt_qemu.qemuAgentCommand(self.guest.domain(), json.dumps(request), 10, 0)


@contextmanager
def building_guest(
    host: Host, disk: BuildDisk, plugin: Path, *, name: str, memory: int, reporting: bool, words: str = ""
) -> Iterator[BuildingGuest]:
    """Boot a guest with an overlay of the disk. `words` go to its kernel's command line. Ends it afterwards."""
    folder = host.state_dir / f"build-{name}"
    folder.mkdir()
    overlay, counter = folder / "overlay.qcow2", folder / "instructions"
    command = [find("qemu-img"), "create", "-q", "-f", "qcow2", "-b", str(disk.path), "-F", "raw", str(overlay)]
    subprocess.run(command, check=True)
    guest = host.add_guest(
        name=name, memory=memory, reporting=reporting, start=False, extra_specs={"memhint:guest_actions": "allow"}
    )
    try:
        described = with_disk(guest.domain().XMLDesc(), overlay, counting(plugin, counter), words)
        host.connection().defineXML(described)
        guest.start()
        yield BuildingGuest(guest, counter)
    finally:
        guest.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def with_disk(described: str, overlay: Path, plugin: str, words: str) -> str:
    """A domain's XML with a second disk that may be written, a plugin of QEMU's, and more words for its kernel.

    Its memory is kept out of KSM, so that nobody else's merging shows in what is measured.
    """
    domain = ET.fromstring(with_plugin(described, plugin, words))
    devices = domain.find("devices")
    if devices is None:
        raise GuestFailed("this domain has no devices")
    ET.SubElement(ET.SubElement(domain, "memoryBacking"), "nosharepages")
    disk = ET.SubElement(devices, "disk", type="file", device="disk")
    # Past the host's page cache, as OpenStack has it.
    ET.SubElement(disk, "driver", name="qemu", type="qcow2", cache="none")
    ET.SubElement(disk, "source", file=str(overlay))
    ET.SubElement(disk, "target", dev="vdb", bus="virtio")
    return ET.tostring(domain, encoding="unicode")
