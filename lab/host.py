"""A host: its own libvirt in its own namespaces, and its own memory budget."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import libvirt

from lab.at_once import at_once
from lab.cgroup import HostCgroup
from lab.debian_root import mounts_of
from lab.errors import HostError, StateError
from lab.guest import Guest
from lab.paths import cache_dir
from lab.process import Process, end_all
from lab.programs import find
from lab.state import GuestRecord, HostRecord, check_name
from lab.unconfined import unconfined
from lab.waiting import listens, wait_for

if TYPE_CHECKING:
    from lab.contexts import LabContext

_CONFINE = Path(__file__).resolve().parent / "confine.py"
_SOCKET_LIMIT = 107
"""Longest path of a Unix socket, in bytes."""
BOOTING_AT_ONCE = (os.cpu_count() or 1) + 1
"""Guests: no more than the machine can boot without slowing each other down."""

# What libvirt keeps, and the directory of the host that takes its place inside the host's mount namespace.
_BINDS = (("run", "/run/libvirt"), ("var", "/var/lib/libvirt"), ("log", "/var/log/libvirt"), ("etc", "/etc/libvirt"))

# Run in the new namespaces; it stays behind as the process that keeps them alive.
_HOLDER = """
set -e
hostname "$1"
shift
while [ $# -gt 0 ]; do mount --bind "$1" "$2"; shift 2; done
echo ready
exec sleep infinity >/dev/null 2>&1
"""

_QEMU_CONF = """\
security_driver = "none"
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
namespaces = []
# QEMU stays in the cgroup that libvirtd is in: that one is the host's memory.
cgroup_controllers = []
"""

# Who may call it is root on this machine, for its QEMUs are root's. Nobody is asked who they are, so the sockets are
# root's alone; as shipped, others may connect where nobody is asked.
_LIBVIRTD_CONF = """\
listen_tls = 0
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_group = "root"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
unix_sock_admin_perms = "0700"
host_uuid = "{uuid}"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""

# Added for a host that guests migrate to and from. Nobody is asked who they are: the address is a loopback one,
# and whoever can log in here can be root by it (lab/README.md says so).
_LIBVIRTD_LISTENS = """\
listen_tcp = 1
auth_tcp = "none"
listen_addr = "{address}"
"""
_QEMU_LISTENS = """\
migration_address = "{address}"
migration_host = "{address}"
"""


NO_SYSTEM_BUS = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}
"""In the environment of the host's daemons. Where systemd runs the machine, libvirt has its machined put each QEMU into
machine.slice, out of the cgroup that is the host's memory; without a bus it leaves QEMU where it is."""

# libvirt's C library prints every error to standard error on its own, also those that a poll expects.
libvirt.registerErrorHandler(lambda _context, _error: None, None)


class Host:
    """One host; made by Lab."""

    def __init__(self, lab: LabContext, record: HostRecord) -> None:
        self.lab = lab
        self.record = record
        self.state_dir = lab.directory / record.name
        self.run_dir = self.state_dir / "run"
        """What the host's own programs see as /run/libvirt."""
        self.cgroup = HostCgroup(record.cgroup)
        self.guests = [Guest(self, guest) for guest in record.guests]
        self._connection: libvirt.virConnect | None = None
        self._lock = threading.RLock()
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def name(self) -> str:
        """Also its hostname."""
        return self.record.name

    @property
    def uuid(self) -> str:
        """UUID its libvirt reports."""
        return self.record.uuid

    @property
    def socket(self) -> Path:
        """Socket of its libvirtd, as seen from outside."""
        return self.run_dir / "libvirt-sock"

    @property
    def uri(self) -> str:
        """libvirt URI that reaches this host from outside its namespaces."""
        return f"qemu+unix:///system?socket={self.socket}"

    @property
    def budget(self) -> int:
        """Bytes of memory this host has."""
        return self.cgroup.limit()

    def __repr__(self) -> str:
        return f"<Host {self.name}>"

    # ---- life ----

    def start(self, budget: int, swap: int) -> None:
        """Bring up the host with `budget` bytes of memory and `swap` bytes of disk swap."""
        self._make_directories()
        self.cgroup.create(budget, swap)
        self._start_holder()
        self._start_daemon(
            "virtlogd", "/run/libvirt/virtlogd-sock", [find("virtlogd"), "-p", "/run/libvirt/virtlogd.pid"]
        )
        self._start_libvirtd()

    def restart_libvirtd(self) -> None:
        """End libvirtd, if it has not crashed, and start it again; guests and virtlogd stay."""
        with self._lock:
            self.stop_libvirtd()
            self._start_libvirtd()

    def stop_libvirtd(self) -> None:
        """End libvirtd; guests stay."""
        with self._lock:
            self.close()
            if end_all([self.record.processes["libvirtd"]], 20.0):
                raise HostError(f"{self.name}: libvirtd did not end")
            self.reap()

    def _start_libvirtd(self) -> None:
        argv = [find("libvirtd"), "-f", "/etc/libvirt/libvirtd.conf", "-p", "/run/libvirt/libvirtd.pid"]
        if self.record.address is not None:
            argv.append("--listen")
        self._start_daemon("libvirtd", "/run/libvirt/libvirt-sock", argv, [] if self.lab.record.thp else ["--no-thp"])
        self.connection()

    def connection(self) -> libvirt.virConnect:
        """An open connection to its libvirtd, shared by all users in this process."""
        with self._lock:
            if self._connection is not None and self._connection.isAlive():
                return self._connection
            self.close()
            try:
                self._connection = libvirt.open(self.uri)
            except libvirt.libvirtError as reason:
                raise HostError(
                    f"{self.name}: no answer from its libvirtd: {reason}; see {self.state_dir / 'log'}"
                ) from reason
            return self._connection

    def close(self) -> None:
        """Close this process's connection to its libvirtd."""
        with self._lock:
            if self._connection is not None:
                with contextlib.suppress(libvirt.libvirtError):
                    self._connection.close()
                self._connection = None

    def reap(self) -> None:
        """Collect those of its processes that this process started and that have ended."""
        self._children = [child for child in self._children if child.poll() is None]

    def save(self) -> None:
        """Write down what runs."""
        self.lab.save()

    def _make_directories(self) -> None:
        # Sockets of QEMU are as open as the umask of whoever starts the lab has them: nobody else gets as far as these.
        self.state_dir.mkdir(mode=0o700, exist_ok=True)
        for directory in (
            "run",
            "var/qemu",
            "var/images",
            "var/boot",
            "log/qemu",
            "etc/qemu/networks",
            "console",
            "disk",
            "work",
        ):
            (self.state_dir / directory).mkdir(parents=True, exist_ok=True)
        qemu, libvirtd = _QEMU_CONF, _LIBVIRTD_CONF.format(uuid=self.uuid)
        if self.record.address is not None:
            qemu += _QEMU_LISTENS.format(address=self.record.address)
            libvirtd += _LIBVIRTD_LISTENS.format(address=self.record.address)
        (self.state_dir / "etc" / "qemu.conf").write_text(qemu)
        (self.state_dir / "etc" / "libvirtd.conf").write_text(libvirtd)

    def _start_holder(self) -> None:
        # What libvirt finds out about QEMU is the same for all hosts and takes it seconds: kept with the images.
        release = self.lab.record.release
        capabilities = cache_dir() / "lab" / (f"libvirt-{release}" if release else "libvirt")
        capabilities.mkdir(parents=True, exist_ok=True)
        binds = [
            *((str(self.state_dir / ours), theirs) for ours, theirs in _BINDS),
            (str(capabilities), "/var/cache/libvirt"),
        ]
        if self.lab.root is not None:
            binds += mounts_of(self.lab.root)
        for _, theirs in binds:
            # A bind needs a directory to be mounted on; an empty one is all the machine itself gets to see.
            if not Path(theirs).exists():
                Path(theirs).mkdir(parents=True)
        argv = [
            # "slave": what the machine unmounts later goes away here too and does not stay busy.
            find("unshare"), "--mount", "--uts", "--propagation", "slave", "--",
            "/bin/sh", "-c", _HOLDER, "holder", self.name, *(word for pair in binds for word in pair),
        ]  # fmt: skip
        child = self._spawn("holder", argv, [], stdout=subprocess.PIPE)
        assert child.stdout is not None
        with child.stdout as out:
            if out.readline() != b"ready\n":
                raise HostError(f"{self.name}: its namespaces could not be set up: {self._log_tail('holder')}")

    def _start_daemon(self, role: str, socket: str, argv: list[str], options: Sequence[str] = ()) -> None:
        outside = self.run_dir / Path(socket).name
        # One that a crash left behind would be taken for the new daemon's.
        outside.unlink(missing_ok=True)
        child = self._spawn(role, [*self.enter_argv(), *unconfined(argv)], options)

        def listening() -> bool:
            if child.poll() is not None:
                raise HostError(f"{self.name}: {role} ended with {child.returncode}: {self._log_tail(role)}")
            return listens(outside)

        wait_for(listening, 60, f"{role} of {self.name} to listen", 0.02)

    def _spawn(
        self, role: str, argv: Sequence[str], options: Sequence[str], stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a process in the host's cgroups and record it."""
        confine = [sys.executable, "-I", "-S", str(_CONFINE), *options]
        for path in self.cgroup.paths:
            confine += ["--cgroup", str(path)]
        with (self.state_dir / "log" / f"{role}.out").open("ab") as log:
            child = subprocess.Popen(
                [*confine, "--", *argv],
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, **NO_SYSTEM_BUS},
            )
        self._children.append(child)
        process = Process.of(child.pid)
        if process is not None:
            self.record.processes[role] = process
            self.save()
        return child

    def _log_tail(self, role: str) -> str:
        text = (self.state_dir / "log" / f"{role}.out").read_text(errors="replace").strip()
        return text[-600:] or f"it said nothing; see {self.state_dir / 'log'}"

    def enter_argv(self) -> list[str]:
        """Words to put before a command so that it runs in this host's namespaces."""
        return [find("nsenter"), "-t", str(self.record.processes["holder"].pid), "-m", "-u", "--"]

    def run(self, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command in this host's namespaces (its memory is the machine's, not the host's)."""
        return subprocess.run([*self.enter_argv(), *argv], text=True, capture_output=True, check=False, **options)

    # ---- guests ----

    def guest(self, name: str) -> Guest:
        """The guest of that name."""
        for guest in self.guests:
            if guest.name == name:
                return guest
        raise StateError(
            f"no guest {name} on {self.name}: it has {', '.join(guest.name for guest in self.guests) or 'none'}"
        )

    def add_guest(
        self,
        name: str | None = None,
        memory: int | None = None,
        kernel: str | None = None,
        reporting: bool = True,
        project: str | None = None,
        extra_specs: dict[str, str] | None = None,
        start: bool = True,
        guest_uuid: str | None = None,
        agent: str | None = None,
        emulator: str | None = None,
        recycler: bool = False,
    ) -> Guest:
        """One more guest, ready to answer when this returns. What is not given is as the lab was made.

        :param recycler: a balloon with the page recycler, which only the emulator "memhint" has
        """
        image = self.lab.image(kernel or self.lab.kernel, agent or self.lab.agent)
        with self._lock:
            taken = {guest.name for guest in self.guests}
            number = 1
            while name is None:
                name = f"guest-{number}" if f"guest-{number}" not in taken else None
                number += 1
            if check_name(name) in taken:
                raise StateError(f"{self.name} has a guest {name} already")
            record = GuestRecord(
                name,
                guest_uuid or str(uuid.uuid4()),
                memory or self.lab.memory,
                kernel or self.lab.kernel,
                reporting,
                project,
                extra_specs or {},
                agent=agent or self.lab.agent,
                emulator=emulator or self.lab.emulator,
                recycler=recycler,
            )
            guest = Guest(self, record)
            if len(str(guest.work_socket)) > _SOCKET_LIMIT:
                raise StateError(
                    f"{guest.work_socket} is longer than the {_SOCKET_LIMIT} bytes of a socket path: "
                    "set MEMHINT_LAB_DIR to a shorter directory"
                )
            self.guests.append(guest)
            self.record.guests.append(record)
            self.save()
        guest.define(image, self.lab.record.accel)
        if start:
            guest.start()
        return guest

    def add_guests(self, guests: Iterable[dict[str, Any]], done: Callable[[Guest], None] | None = None) -> list[Guest]:
        """Several guests at once, each given as arguments of add_guest; in the order given. `done` is told of each."""
        return add_all([(self, arguments) for arguments in guests], done)

    def forget(self, guest: Guest) -> None:
        """Drop a guest that has ended."""
        with self._lock:
            self.guests.remove(guest)
            self.record.guests.remove(guest.record)
            self.save()

    # ---- memory ----

    def usage(self) -> int:
        """Bytes charged to the host now."""
        return self.cgroup.usage()

    def swap_used(self) -> int:
        """Bytes of the host's memory in swap."""
        return self.cgroup.swap_used()

    def in_use(self) -> int:
        """Bytes that the host has to keep, in memory or in swap."""
        return self.cgroup.in_use()

    def oom_kills(self) -> int:
        """Processes killed on this host for want of memory."""
        return self.cgroup.oom_kills()


def add_all(wanted: Sequence[tuple[Host, dict[str, Any]]], done: Callable[[Guest], None] | None = None) -> list[Guest]:
    """Add guests to hosts in parallel, BOOTING_AT_ONCE at a time."""
    with at_once(BOOTING_AT_ONCE) as pool:
        futures = [pool.submit(host.add_guest, **arguments) for host, arguments in wanted]
        for future in as_completed(futures):
            guest = future.result()
            if done is not None:
                done(guest)
        return [future.result() for future in futures]
