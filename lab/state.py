"""What a lab has started, on disk, so that any process can find it and end it."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from lab.errors import StateError
from lab.process import Process

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,23}\Z")
_FILE = "state.json"
_FRESH = "state.new"

LOCK = "lock"
"""The file that makes a directory a lab's, by the word in it. It comes first, and goes last."""
_WORD = "memhint lab\n"


def check_name(name: str) -> str:
    """Names become directories, cgroups and parts of socket paths."""
    if not _NAME.match(name):
        raise StateError(f"{name!r} cannot be a name: use up to 24 lower-case letters, digits and hyphens")
    return name


@dataclass
class GuestRecord:
    """A guest as recorded; `memory` in bytes."""

    name: str
    uuid: str
    memory: int
    kernel: str
    reporting: bool
    project: str | None = None
    extra_specs: dict[str, str] = field(default_factory=dict)
    qemu: Process | None = None
    agent: str = "stock"
    emulator: str = "stock"
    recycler: bool = False


@dataclass
class HostRecord:
    """A host as recorded."""

    name: str
    uuid: str
    cgroup: str
    processes: dict[str, Process] = field(default_factory=dict)
    """Role ("holder", "virtlogd", "libvirtd") to process."""
    guests: list[GuestRecord] = field(default_factory=list)
    address: str | None = None
    """Loopback address on which its libvirtd takes live migrations, None where it takes none."""


@dataclass
class LabRecord:
    """A lab as recorded."""

    name: str
    accel: str
    thp: bool
    budget: int
    """Bytes of memory of each host, after what compressed swap takes."""
    swap: int
    """Bytes of disk swap each host may use."""
    swap_file: str | None
    zram_used: int
    """Bytes that active zram swap held when the lab started."""
    hosts: list[HostRecord] = field(default_factory=list)
    release: str | None = None
    """Debian's release that hosts have libvirt and QEMU of; None is the machine's own."""


class StateFile:
    """The record of the lab in `directory`, written whole and in one step."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / _FILE
        self._lock = threading.Lock()

    def exists(self) -> bool:
        """Whether the lab has been recorded."""
        return self._path.exists()

    def save(self, record: LabRecord) -> None:
        """Replace what is on disk."""
        with self._lock:
            fresh = self.directory / _FRESH
            fresh.write_text(json.dumps(asdict(record), indent=1))
            fresh.rename(self._path)

    def load(self) -> LabRecord:
        """What is on disk; StateError when there is none or it is damaged."""
        try:
            data = json.loads(self._path.read_text())
        except FileNotFoundError:
            raise StateError(
                f"no lab named {self.directory.name} in {self.directory.parent}: start one with lab/lab up"
            ) from None
        except ValueError as reason:
            raise StateError(
                f"{self._path} is damaged ({reason}): "
                f"lab/lab down --name {self.directory.name} cleans up what it can find"
            ) from reason
        hosts = [
            HostRecord(
                **{
                    **host,
                    "processes": {role: Process(**process) for role, process in host["processes"].items()},
                    "guests": [
                        GuestRecord(**{**guest, "qemu": Process(**guest["qemu"]) if guest["qemu"] else None})
                        for guest in host["guests"]
                    ],
                }
            )
            for host in data.pop("hosts")
        ]
        return LabRecord(**data, hosts=hosts)


def claim(directory: Path) -> None:
    """Make the directory of a new lab; StateError when something is there already."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    _refuse_anothers(directory.parent)
    try:
        with suppress(FileExistsError):  # an empty one is of a start that was killed before the next step
            directory.mkdir()
        if any(directory.iterdir()):
            raise FileExistsError
        with (directory / LOCK).open("x") as lock:
            lock.write(_WORD)
    except (FileExistsError, NotADirectoryError):
        if is_lab(directory):
            raise StateError(
                f"there is a lab {directory.name} already: lab/lab down --name {directory.name}, or choose another name"
            ) from None
        raise StateError(f"{directory} holds something else than a lab: choose another name") from None


def _refuse_anothers(labs: Path) -> None:
    """Of a place where everybody may make directories, as /var/tmp is: whoever made this one first could have root
    write wherever he likes, by a link in a lab's place."""
    open_to_all = labs.parent.stat().st_mode & stat.S_IWOTH
    if open_to_all and labs.lstat().st_uid not in (0, os.geteuid()):
        raise StateError(
            f"{labs} is another user's, who may change what is kept there: remove it, or set MEMHINT_LAB_DIR to a"
            " directory of your own"
        )


def sign(lock: IO[str]) -> None:
    """Put a lab's word into the lock of one that is about to be removed: what told that it is a lab may go first."""
    lock.seek(0)
    lock.write(_WORD)
    lock.flush()


def is_lab(directory: Path) -> bool:
    """Whether all in it is a lab's, so that it may be removed.

    Older versions had nothing in the lock: there the record tells, or that nothing is there which it could tell of.
    """
    if not _NAME.match(directory.name) or directory.is_symlink():
        return False
    lock = directory / LOCK
    try:
        if lock.is_symlink() or not lock.is_file():
            return False
        if lock.stat().st_size:
            return lock.stat().st_size == len(_WORD) and lock.read_bytes() == _WORD.encode()
        if {path.name for path in directory.iterdir()} <= {LOCK, "keeper.log", _FRESH}:
            return True
        begins = f'{{\n "name": {json.dumps(directory.name)},\n "accel":'
        return any(
            path.is_file() and path.read_text(errors="replace").startswith(begins)
            for path in (directory / _FILE, directory / _FRESH)
        )
    except OSError:
        return False


def existing(labs: Path) -> list[str]:
    """Names of the labs that have a directory in `labs`."""
    return sorted(path.name for path in labs.iterdir() if is_lab(path)) if labs.is_dir() else []
