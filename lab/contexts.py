"""What a part of the lab knows of the one that it is in: a host of its lab, a guest of its host."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import libvirt

from lab.cgroup import HostCgroup
from lab.image import Image
from lab.state import HostRecord, LabRecord


class LabContext(Protocol):
    """A lab, to its hosts."""

    record: LabRecord
    memory: int
    kernel: str
    agent: str
    emulator: str
    translation_cache: int
    directory: Path
    name: str
    root: Path | None
    """Root directory of the release that its hosts are of; None is the machine's."""

    def image(self, series: str, agent: str) -> Image:
        """The guest image with a kernel of ``series`` and a guest agent."""

    def emulator_program(self, emulator: str) -> Path | None:
        """The program of an emulator; None is the one that libvirt finds by itself."""

    def save(self) -> None:
        """Write down what runs."""


class HostContext(Protocol):
    """A host, to its guests."""

    record: HostRecord
    cgroup: HostCgroup
    run_dir: Path
    state_dir: Path

    @property
    def lab(self) -> LabContext:
        """Its lab."""

    @property
    def name(self) -> str:
        """Also its hostname."""

    def connection(self) -> libvirt.virConnect:
        """An open connection to its libvirtd."""

    def save(self) -> None:
        """Write down what runs."""

    def forget(self, guest: Any) -> None:
        """Drop a guest that has ended."""
