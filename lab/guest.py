"""A guest of a lab host, seen from outside and through its workload program."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libvirt
import libvirt_qemu

from lab import debian_guest, patched
from lab.domain_xml import DomainSpec, domain_xml
from lab.errors import BootError, HostError, ImageError, LabError, Timeout, WorkError
from lab.image import Image
from lab.process import Process
from lab.programs import run
from lab.state import GuestRecord
from lab.waiting import wait_for
from lab.work_channel import WorkChannel
from lab.worker import WORK_DEADLINE, Worker

if TYPE_CHECKING:
    from lab.contexts import HostContext

BOOT_DEADLINE = 300.0
"""Seconds until a guest that does not answer counts as failed; several may share one emulating core."""
INSTALLED_BOOT_DEADLINE = 600.0
"""The same for one with an init system, services and a disk to check, each of them emulated."""
_HEARD_OF = 40.0
"""Seconds after which an agent opens its port again: libvirt drops the news of it when the domain is busy for 30 s."""


class Guest(Worker):
    """One VM; made by Host.add_guest."""

    def __init__(self, host: HostContext, record: GuestRecord) -> None:
        self.host = host
        self.record = record
        self.boot_id: str | None = None
        """Boot ID of the guest's kernel, known once the guest is ready."""
        self._channel = WorkChannel(self.work_socket, record.name)
        self._state = threading.Lock()

    # ---- who it is ----

    @property
    def name(self) -> str:
        """Name of its domain."""
        return self.record.name

    @property
    def uuid(self) -> str:
        """UUID of its domain."""
        return self.record.uuid

    @property
    def memory(self) -> int:
        """Bytes assigned."""
        return self.record.memory

    @property
    def kernel(self) -> str:
        """What it was made of, one of `lab.guest_image.KINDS`: the series of its kernel, or an installed system."""
        return self.record.kernel

    @property
    def emulator(self) -> str:
        """Its QEMU, "stock" or "memhint"."""
        return self.record.emulator

    @property
    def boot_deadline(self) -> float:
        """Seconds that it may take to boot."""
        return INSTALLED_BOOT_DEADLINE if self.kernel in debian_guest.GUESTS else BOOT_DEADLINE

    @property
    def console(self) -> Path:
        """Log of the serial console."""
        return self.host.state_dir / "console" / f"{self.name}.log"

    @property
    def work_socket(self) -> Path:
        """Unix socket of the workload's port."""
        return self.host.state_dir / "work" / f"{self.record.name}.sock"

    @property
    def pid_file(self) -> Path:
        """libvirt's file with the pid of its QEMU."""
        return self.host.run_dir / "qemu" / f"{self.name}.pid"

    def __repr__(self) -> str:
        return f"<Guest {self.host.name}/{self.name}>"

    # ---- life ----

    def define(self, image: Image, accel: str) -> None:
        """Make it known to its host's libvirt."""
        root = None
        if image.root is not None:
            root = self.host.state_dir / "disk" / f"{self.name}.qcow2"
            words = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(image.root), str(root)]
            run(words, f"making the disk of {self.name}", ImageError)
        spec = DomainSpec(
            name=self.name,
            uuid=self.uuid,
            memory=self.memory,
            accel=accel,
            kernel=image.kernel,
            initrd=image.initrd,
            disk=image.disk,
            root=root,
            console=self.console,
            work_socket=self.work_socket,
            reporting=self.record.reporting,
            recycler=self.record.recycler,
            emulator=self.host.lab.emulator_program(self.record.emulator),
            kernel_words=(*image.words, *patched.WORDS.get(self.record.kernel, ())),
            translation_cache=self.host.lab.translation_cache,
            project=self.record.project,
            extra_specs=self.record.extra_specs,
        )
        self._libvirt(lambda: self.host.connection().defineXML(domain_xml(spec)), "define")

    def start(self, ready: bool = True) -> None:
        """Boot it, and by default wait until its agent and its workload answer."""
        self.console.unlink(missing_ok=True)
        self._libvirt(lambda: self.domain().create(), "start")
        self.know_qemu()
        if ready:
            self.wait_ready()

    def know_qemu(self) -> None:
        """Take note of the QEMU that libvirt has just started for it, or that it was migrated back into."""
        qemu = Process.of(int(self.pid_file.read_text()))
        if qemu is None:
            raise BootError(
                f"{self.name}: QEMU ended at once: see {self.host.state_dir / 'log' / 'qemu' / (self.name + '.log')}"
            )
        self.record.qemu = qemu
        self.host.save()
        self.host.cgroup.require(qemu.pid, f"QEMU of {self.name}")

    def save(self) -> None:
        """End it with its memory written to the host's disk; `start` goes on from there."""
        self._libvirt(lambda: self.domain().managedSave(0), "save")
        self.record.qemu = None
        self.host.save()

    def snapshot(self, name: str) -> None:
        """Keep its disk and its memory as they are, in its disk's file."""
        asked = f"<domainsnapshot><name>{name}</name></domainsnapshot>"
        self._libvirt(lambda: self.domain().snapshotCreateXML(asked), "make a snapshot of")

    def revert(self, name: str) -> None:
        """Go back to a snapshot, in the same QEMU or, as newer libvirts have it, in another one."""
        self._libvirt(lambda: self.domain().revertToSnapshot(self.domain().snapshotLookupByName(name)), "revert")
        self.know_qemu()

    def wait_ready(self, deadline: float | None = None) -> None:
        """Wait `deadline` seconds, `boot_deadline` unless given, for its workload and its agent; BootError shows the
        console."""
        deadline = deadline or self.boot_deadline
        end = time.monotonic() + deadline
        try:
            self.work("ping", deadline=deadline)
            try:
                self._wait_for_news(min(_HEARD_OF, max(1.0, end - time.monotonic())))
            except Timeout:
                self.work("agent start")
                self._wait_for_news(max(1.0, end - time.monotonic()))
        except LabError as reason:
            raise BootError(
                f"{self.name} did not come up: {reason}\nlast lines of its console:\n{self.console_tail()}"
            ) from reason
        self.boot_id = str(self.meminfo()["boot_id"])

    def wait_rebooted(self, deadline: float | None = None) -> None:
        """Wait `deadline` seconds, `boot_deadline` unless given, for another boot of its kernel than the one known, and
        for that one to be ready."""
        deadline = deadline or self.boot_deadline
        before, end = self.boot_id, time.monotonic() + deadline

        def other_boot() -> bool:
            try:
                return bool(self.work("meminfo", deadline=2.0)["boot_id"] != before)
            except WorkError:
                return False  # it is on its way down or up

        wait_for(other_boot, deadline, f"{self.name} to boot again")
        self.wait_ready(max(1.0, end - time.monotonic()))

    def stop(self) -> None:
        """Power off at once; the domain stays defined and can be started again."""
        self.resume()
        self._libvirt(lambda: self.domain().destroy(), "stop")
        self.record.qemu = None
        self.host.save()

    def destroy(self) -> None:
        """Power off at once, if it runs, and forget it."""
        if self.running():
            self.stop()
        self._libvirt(lambda: self.domain().undefine(), "undefine")
        self.host.forget(self)

    def pause(self) -> None:
        """Stop its QEMU process (SIGSTOP): the whole VM stands still, and its libvirt monitor no longer answers."""
        self.process().kill(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused QEMU process go on."""
        if self.record.qemu is not None:
            self.record.qemu.kill(signal.SIGCONT)

    def running(self) -> bool:
        """Whether its QEMU process is there, also when paused."""
        return self.record.qemu is not None and self.record.qemu.alive

    def paused(self) -> bool:
        """Whether its QEMU process is stopped."""
        return self.record.qemu is not None and self.record.qemu.stopped

    def process(self) -> Process:
        """Its QEMU process; HostError when it is off."""
        if self.record.qemu is None or not self.record.qemu.alive:
            raise HostError(f"{self.name} does not run")
        return self.record.qemu

    def pid(self) -> int:
        """Pid of its QEMU process."""
        return self.process().pid

    def domain(self) -> libvirt.virDomain:
        """Its domain on the current connection."""
        return self.host.connection().lookupByUUIDString(self.uuid)

    def console_tail(self, lines: int = 15) -> str:
        """The last lines of its serial console."""
        try:
            return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:]) or "(empty)"
        except OSError:
            return "(none)"

    # ---- memory ----

    def resident(self) -> int:
        """Bytes of host memory its QEMU process holds (VmRSS)."""
        return self.status_field("VmRSS")

    def memory_resident(self) -> int:
        """Bytes of host memory behind the guest's own memory, without what QEMU takes for itself."""
        largest = resident = size = 0
        for line in Path(f"/proc/{self.pid()}/smaps").read_text().splitlines():
            key, _, value = line.partition(":")
            if key == "Size":
                size = int(value.split()[0])
            elif key == "Rss" and size > largest:  # no other mapping of a QEMU comes near its guest's memory
                largest, resident = size, int(value.split()[0]) * 1024
        return resident

    def status_field(self, name: str) -> int:
        """Bytes of a memory row of /proc/PID/status of its QEMU process, such as "VmSwap"."""
        for line in Path(f"/proc/{self.pid()}/status").read_text().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return int(value.split()[0]) * 1024
        raise HostError(f"no {name} in /proc/{self.pid()}/status")

    # ---- what runs inside ----

    def work(self, request: str, deadline: float = WORK_DEADLINE) -> dict[str, Any]:
        """The workload's answer to `request` (see lab/README.md for the commands)."""
        return self._channel.request(request, deadline, self.running)

    def sh(self, command: str, deadline: float = WORK_DEADLINE) -> str:
        """What a command of its shell printed; WorkError with that, unless it ended with 0."""
        done = self.work(f"sh {command}", deadline)
        if done["code"]:
            raise WorkError(f"{self.name}: {command!r} ended with {done['code']}: {done['text'][-2000:]}")
        return str(done["text"])

    def agent_answers(self, timeout: int = 2) -> bool:
        """Whether the guest agent answers a ping within `timeout` seconds."""
        try:
            libvirt_qemu.qemuAgentCommand(self.domain(), '{"execute": "guest-ping"}', timeout, 0)
        except (libvirt.libvirtError, HostError):
            return False  # nobody answers either where libvirtd does not, as one that is just being restarted
        return True

    def wait_agent(self, deadline: float = BOOT_DEADLINE) -> None:
        """Wait `deadline` seconds for its agent to answer."""
        wait_for(self.agent_answers, deadline, f"the guest agent of {self.name}")

    def _wait_for_news(self, deadline: float) -> None:
        """As wait_agent; HostError as soon as its QEMU has ended, as it does where the lab is taken down meanwhile."""

        def answers() -> bool:
            self.process()
            return self.agent_answers()

        wait_for(answers, deadline, f"the guest agent of {self.name}")

    def _libvirt(self, call: Any, what: str) -> None:
        try:
            call()
        except libvirt.libvirtError as reason:
            raise HostError(f"{self.host.name}: cannot {what} {self.name}: {reason}") from reason
