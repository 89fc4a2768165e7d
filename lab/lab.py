"""A lab: hosts with guests, from nothing to ready, and back to nothing."""

from __future__ import annotations

import os
import secrets
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from lab import image, kept_logs, kvm, patched, paths, programs, swap
from lab.cgroup import detect
from lab.debian_root import HOST_PACKAGES, debian_root
from lab.domain_xml import TRANSLATION_CACHE
from lab.errors import BudgetTooLarge, LabError, StateError, UnknownKernel
from lab.guest import Guest
from lab.guest_image import KINDS, guest_image
from lab.host import Host, add_all
from lab.keeper import Keeper
from lab.sizes import GIB, MIB, format_size
from lab.state import HostRecord, LabRecord, StateFile, check_name, claim
from lab.teardown import teardown
from lab.waiting import wait_for

T = TypeVar("T")

SMALLEST_BUDGET = 256 * MIB
SMALLEST_GUEST = 192 * MIB

_ASKING = threading.Lock()
_IMAGES: dict[tuple[Path, str, str], image.Image] = {}
_EMULATORS: dict[Path, Path] = {}
"""What there is in a cache, for all labs of this process: it takes a second to see that it is of today's sources."""


class Lab:
    """Used as a context manager it ends with the block, or with this process, however that ends."""

    def __init__(
        self,
        hosts: int = 1,
        guests: int = 6,
        memory: int = GIB,
        budget: int = 3 * GIB,
        swap: int = 0,
        kernel: str = "6.12",
        agent: str = "stock",
        emulator: str = "stock",
        accel: str = "auto",
        name: str | None = None,
        state_dir: Path | str | None = None,
        thp: bool = True,
        reporting: bool = True,
        progress: image.Progress | None = None,
        network: str | None = None,
        translation_cache: int = TRANSLATION_CACHE,
        release: str | None = None,
        host_packages: Sequence[str] = HOST_PACKAGES,
        logs: Path | None = None,
    ) -> None:
        """`guests` for each host, with `memory` bytes assigned to each; `budget` bytes for each host; `swap` bytes for
        the lab, shared evenly. `state_dir` holds one directory per lab. `network`, such as "127.1.2", gives each host
        an address there, where its libvirtd takes live migrations. `translation_cache`: bytes that each QEMU may fill
        with translated code, where it emulates. `release`, "bookworm" or "trixie": hosts have its libvirt, QEMU and
        all else below /usr, in place of the machine's own; where it is not given, the environment's
        MEMHINT_LAB_RELEASE says so. `host_packages` are what hosts of such a release have. `logs`: where what was
        logged goes when the lab fails, in a directory of its name."""
        self.name = check_name(name or f"lab-{secrets.token_hex(3)}")
        self.directory = Path(state_dir or paths.labs_dir()) / self.name
        self.kernel = kernel
        self.agent = agent
        self.emulator = emulator
        self.memory = memory
        self.hosts: list[Host] = []
        self.record = LabRecord(
            self.name, accel, thp, budget, swap // max(1, hosts), str(self.directory / "swap") if swap else None, 0
        )
        self.record.release = release or os.environ.get("MEMHINT_LAB_RELEASE") or None
        self._state = StateFile(self.directory)
        self._wanted = (hosts, guests, swap, reporting)
        self._progress = progress or (lambda *_: None)
        self._host_packages = host_packages
        self._logs = logs
        self.root: Path | None = None
        self._keeper: Keeper | None = None
        self.network = network
        self.translation_cache = translation_cache

    @classmethod
    def attach(cls, name: str, state_dir: Path | str | None = None) -> Lab:
        """A running lab, started by this or another process. It is not ended with this one."""
        lab = cls(name=name, state_dir=state_dir)
        lab.record = lab._state.load()
        lab.hosts = [Host(lab, record) for record in lab.record.hosts]
        first = next((guest for host in lab.hosts for guest in host.guests), None)
        if first is not None:
            lab.kernel, lab.agent, lab.emulator = first.kernel, first.record.agent, first.emulator
            lab.memory = first.memory
        return lab

    def __enter__(self) -> Lab:
        self.up(keep=True)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if error is not None:
            self.keep_logs(error)
        self.down()

    @property
    def guests(self) -> list[Guest]:
        """All guests of all hosts."""
        return [guest for host in self.hosts for guest in host.guests]

    def host(self, name: str) -> Host:
        """The host of that name."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise StateError(f"no host {name} in lab {self.name}: it has {', '.join(host.name for host in self.hosts)}")

    def image(self, series: str, agent: str) -> image.Image:
        """The guest image with a kernel of `series` and a guest agent, built at most once."""
        with _ASKING:
            key = (paths.cache_dir(), series, agent)
            if key not in _IMAGES:
                _IMAGES[key] = guest_image(series, self._progress, agent)
            return _IMAGES[key]

    def emulator_program(self, emulator: str) -> Path | None:
        """The program of an emulator, built at most once; None is the one that libvirt finds by itself."""
        if emulator == "stock":
            return None
        with _ASKING:
            key = paths.cache_dir()
            if key not in _EMULATORS:
                _EMULATORS[key] = patched.emulator_program()
            return _EMULATORS[key]

    def save(self) -> None:
        """Write down what runs."""
        self._state.save(self.record)

    def wait_for(self, predicate: Callable[[], T], deadline: float, what: str) -> T:
        """The first true value of `predicate` within `deadline` seconds; the error says what was seen last."""
        return wait_for(predicate, deadline, what)

    # ---- up and down ----

    def up(self, keep: bool = False) -> None:
        """Start everything. With `keep` a keeper ends it all when this process ends."""
        hosts, guests, swap_size, reporting = self._wanted
        self._check(hosts)
        if self.record.release is not None:
            tell = self._progress
            self.root = debian_root(self.record.release, self._host_packages, lambda what: tell("release", what, 0, 1))
        booted = self.image(self.kernel, self.agent)
        self.emulator_program(self.emulator)
        self.record.accel = kvm.choose(self.record.accel, booted)
        claim(self.directory)
        try:
            if keep:
                self._keeper = Keeper(self.directory)
            self.save()
            self._take_zram_off(hosts)
            if swap_size:
                self._progress("swap", f"making {format_size(swap_size)}", 0, 1)
                swap.add(self.directory / "swap", swap_size)
                self._progress("swap", "ready", 1, 1)
            self._start_hosts(hosts)
            self._start_guests(guests, reporting)
        except BaseException as error:
            self.keep_logs(error)
            self.down()
            raise

    def down(self) -> bool:
        """End everything; False when there was nothing to end."""
        for host in self.hosts:
            host.close()
        ended = teardown(self.directory)
        for host in self.hosts:
            host.reap()
        self.hosts = []
        if self._keeper is not None:
            self._keeper.release()
            self._keeper = None
        return ended

    def keep_logs(self, error: BaseException | None = None) -> Path | None:
        """Keep what was logged, before `down`, and have the error name where; None where nobody asked for it.

        :param error: that ends the lab; ctrl-c is nothing to look into
        """
        if self._logs is None or not (error is None or isinstance(error, Exception)):
            return None
        kept = kept_logs.keep(self.directory, self._logs)
        if kept is not None and isinstance(error, LabError):
            kept_logs.retell(error, self.directory, kept)
        return kept

    def _check(self, hosts: int) -> None:
        programs.require_root()
        programs.require_all()
        detect()
        if self.kernel not in KINDS:
            raise UnknownKernel(f"kernel {self.kernel!r} is not one of {', '.join(KINDS)}")
        if self.agent not in patched.AGENTS:
            raise UnknownKernel(f"guest agent {self.agent!r} is not one of {', '.join(patched.AGENTS)}")
        if self.emulator not in patched.EMULATORS:
            raise UnknownKernel(f"emulator {self.emulator!r} is not one of {', '.join(patched.EMULATORS)}")
        if hosts < 1:
            raise StateError("a lab has at least one host")
        if self.memory < SMALLEST_GUEST:
            raise StateError(f"a guest needs at least {format_size(SMALLEST_GUEST)}; {format_size(self.memory)} given")
        if self.record.budget < SMALLEST_BUDGET:
            raise BudgetTooLarge(
                f"a host needs at least {format_size(SMALLEST_BUDGET)}; {format_size(self.record.budget)} given"
            )
        available = _available()
        if hosts * self.record.budget > available:
            raise BudgetTooLarge(
                f"{hosts} x {format_size(self.record.budget)} is more than the "
                f"{format_size(available)} this machine has available: "
                "give a smaller --budget, or fewer hosts"
            )

    def _take_zram_off(self, hosts: int) -> None:
        """Compressed swap keeps its pages in the machine's memory, where no cgroup shows them: budgets pay for it."""
        self.record.zram_used = swap.zram_used()
        if self.record.zram_used:
            self.record.budget -= self.record.zram_used // hosts
            self._progress(
                "zram", f"budgets shrink by {format_size(self.record.zram_used)} in all, held by compressed swap", 1, 1
            )

    def _start_hosts(self, count: int) -> None:
        for number in range(1, count + 1):
            name = f"host-{number}"
            self._progress("hosts", name, number - 1, count)
            # The dot separates the lab from the host: names have none, so no lab's cgroups look like another's.
            address = f"{self.network}.{10 + number}" if self.network else None
            record = HostRecord(name, str(uuid.uuid4()), f"{self.name}.{name}", address=address)
            self.record.hosts.append(record)
            host = Host(self, record)
            self.hosts.append(host)
            host.start(self.record.budget, self.record.swap)
        self._progress("hosts", "ready", count, count)

    def _start_guests(self, count: int, reporting: bool) -> None:
        wanted = [
            (host, {"name": f"guest-{number}", "reporting": reporting})
            for number in range(1, count + 1)
            for host in self.hosts
        ]
        if not wanted:
            return
        total, ready = len(wanted), 0
        self._progress("guests", "booting", 0, total)

        def done(guest: Guest) -> None:
            nonlocal ready
            ready += 1
            self._progress("guests", f"{guest.name} ready", ready, total)

        add_all(wanted, done)
        for host in self.hosts:
            # Threads add them in any order; people count from one.
            host.guests.sort(key=lambda guest: int(guest.name.rpartition("-")[2]))


def _available() -> int:
    """Bytes the machine could give without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise StateError("/proc/meminfo has no MemAvailable")
