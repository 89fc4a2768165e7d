"""All instructions that a lab's guest executes, counted by a plugin of its QEMU. Its clock stays the wall's."""

from __future__ import annotations

import mmap
import struct
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from bench.counted_guest import GuestFailed, qemu_version
from lab.programs import find

HERE = Path(__file__).resolve().parent
QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"


def compiled_plugin(into: Path, qemu: str | None = None) -> Path:
    """The plugin that counts instructions, for a QEMU: the distribution's unless given. Raises GuestFailed."""
    major, _ = qemu_version(qemu or find("qemu-system-x86_64"))
    plugin = into / "total.so"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden"]
    # The interface of plugins is 1 up to QEMU 8, and 9 asks for 2 or later.
    command += [f"-DVERSION={1 if major < 9 else 2}", "-o", str(plugin), str(HERE / "guest" / "total.c")]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise GuestFailed(f"total.c does not compile\n{done.stderr}")
    return plugin


def counting(plugin: Path, counter: Path) -> str:
    """QEMU's words for the plugin with this counter."""
    return f"{plugin},out={counter}"


def counted(counter: Path) -> int:
    """Instructions since the guest was started."""
    with counter.open("rb") as file, mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ) as mapped:
        return int(struct.unpack("=Q", mapped[:8])[0])


def with_plugin(described: str, plugin: str, words: str) -> str:
    """A domain's XML with a plugin of QEMU's, and more words for its kernel. Raises GuestFailed."""
    ET.register_namespace("qemu", QEMU)
    domain = ET.fromstring(described)
    line = domain.find("os/cmdline")
    if line is None:
        raise GuestFailed("this domain boots no kernel of its own")
    line.text = f"{line.text or ''} {words}".strip()
    commandline = domain.find(f"{{{QEMU}}}commandline")
    if commandline is None:
        commandline = ET.SubElement(domain, f"{{{QEMU}}}commandline")
    for value in ("-plugin", plugin):
        ET.SubElement(commandline, f"{{{QEMU}}}arg", value=value)
    return ET.tostring(domain, encoding="unicode")
