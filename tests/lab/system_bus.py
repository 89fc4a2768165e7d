"""A system bus of a test's own, on which somebody has the names of systemd and its machined, and only listens."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from lab.programs import find
from lab.started import Started
from lab.waiting import listens, wait_for

NAMES = ("org.freedesktop.systemd1", "org.freedesktop.machine1")
_BUS = "org.freedesktop.DBus"
_CONF = """\
<busconfig>
  <type>system</type>
  <listen>unix:path={folder}/system_bus_socket</listen>
  <servicedir>{folder}</servicedir>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="*"/><allow send_destination="*"/><allow receive_type="*"/>
  </policy>
</busconfig>
"""
# libvirt looks whether the bus would start machined.
_SERVICE = "[D-BUS Service]\nName=org.freedesktop.machine1\nExec=/bin/false\nUser=root\n"


class SystemBus(Started):
    """A bus in a directory that may take the place of /run/dbus; use it in a with statement."""

    def __init__(self, folder: Path) -> None:
        """:param folder: an empty directory"""
        self.folder = folder
        self._daemon: subprocess.Popen[bytes] | None = None
        self._machined: socket.socket | None = None
        self._heard = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)

    def start(self) -> None:
        """Start it, and take the names."""
        (self.folder / "org.freedesktop.machine1.service").write_text(_SERVICE)
        (self.folder / "bus.conf").write_text(_CONF.format(folder=self.folder))
        words = [find("dbus-daemon"), f"--config-file={self.folder}/bus.conf", "--nofork", "--nopidfile"]
        self._daemon = subprocess.Popen(words)
        wait_for(lambda: listens(self.folder / "system_bus_socket"), 30.0, "the bus to listen")
        self._machined = client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.folder / "system_bus_socket"))
        client.sendall(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n")
        assert client.recv(4096).startswith(b"OK ")
        client.sendall(b"BEGIN\r\n" + _call(1, "Hello"))
        for number, name in enumerate(NAMES, 2):
            client.sendall(_call(number, "RequestName", "su", _text(name) + struct.pack("<I", 0)))
        self._listener.start()
        wait_for(lambda: all(self._heard.count(name.encode()) for name in NAMES), 30.0, "the names to be given")

    @property
    def asked_for_a_machine(self) -> bool:
        """Whether anybody has called machined's CreateMachine, or its like with a network."""
        return b"CreateMachine" in self._heard

    def close(self) -> None:
        """End it."""
        if self._machined is not None:
            with suppress(OSError):
                self._machined.shutdown(socket.SHUT_RDWR)
            self._machined.close()
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait()

    def _listen(self) -> None:
        assert self._machined is not None
        with suppress(OSError):
            while got := self._machined.recv(65536):
                self._heard += got
                if self.asked_for_a_machine:
                    self._machined.shutdown(socket.SHUT_RDWR)  # whoever asks is told at once that nobody answers


def _text(text: str) -> bytes:
    """A string as it is sent, up to where an integer may follow."""
    raw = struct.pack("<I", len(text)) + text.encode() + b"\0"
    return raw + bytes(-len(raw) % 4)


def _call(number: int, member: str, signature: str = "", body: bytes = b"") -> bytes:
    """A call of the bus itself, as the D-Bus specification has messages: little endian, version 1."""
    given = ((1, "o", f"/{_BUS.replace('.', '/')}"), (2, "s", _BUS), (3, "s", member), (6, "s", _BUS))
    fields = b""
    for code, kind, value in given:
        fields += bytes(-len(fields) % 8) + bytes([code, 1]) + kind.encode() + b"\0"
        fields += struct.pack("<I", len(value)) + value.encode() + b"\0"
    if signature:
        fields += bytes(-len(fields) % 8) + b"\x08\x01g\0" + bytes([len(signature)]) + signature.encode() + b"\0"
    header = struct.pack("<cBBBIII", b"l", 1, 0, 1, len(body), number, len(fields)) + fields
    return header + bytes(-len(header) % 8) + body
