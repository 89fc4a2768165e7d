"""On a machine that systemd runs, guests stay in their host's cgroup: the lab's libvirt has no way to machined."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import leftovers
from lab.programs import find
from tests.lab.system_bus import SystemBus

CHECKOUT = Path(__file__).resolve().parents[2]

# Run where the bus is the machine's. A guest is started, and nobody waits until it has booted.
SCRIPT = """
import socket, sys
from lab import Lab, host
socket.socket(socket.AF_UNIX).connect("/run/dbus/system_bus_socket")
if sys.argv[1] == "reached":
    host.NO_SYSTEM_BUS.clear()
with Lab(guests=0, memory=256 << 20, budget=1 << 30) as lab:
    guest = lab.hosts[0].add_guest(start=False)
    guest.start(ready=False)
    print("started in", guest.host.cgroup.name == lab.hosts[0].record.cgroup)
"""


@pytest.fixture
def bus() -> Iterator[SystemBus]:
    if shutil.which("dbus-daemon") is None:
        pytest.skip("dbus-daemon is not installed")
    folder = leftovers.scratch("bus")
    try:
        with SystemBus(folder) as one:
            yield one
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def started(bus: SystemBus, word: str) -> subprocess.CompletedProcess[str]:
    """A lab with a guest, in a mount namespace that has this bus in place of the machine's."""
    Path("/run/dbus").mkdir(parents=True, exist_ok=True)
    mounted = 'mount --bind "$1" /run/dbus; shift; exec "$@"'
    words = [find("unshare"), "--mount", "--", "/bin/sh", "-ec", mounted, "sh", str(bus.folder)]
    return subprocess.run(
        [*words, sys.executable, "-c", SCRIPT, word],
        capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip


def test_machined_is_not_asked_for_a_machine(bus: SystemBus) -> None:
    done = started(bus, "not reached")
    assert (done.returncode, done.stdout) == (0, "started in True\n"), done.stderr
    assert not bus.asked_for_a_machine


def test_it_would_be_asked_where_it_is_reached(bus: SystemBus) -> None:
    done = started(bus, "reached")
    assert bus.asked_for_a_machine, done.stderr
    assert "cannot start" in done.stderr
