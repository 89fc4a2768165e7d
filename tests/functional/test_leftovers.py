"""What a killed test run leaves is found and ended, and what belongs to somebody is not touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import leftovers, paths
from lab.cgroup import HostCgroup
from lab.process import Process
from lab.servers.directory import ServerDirectory
from lab.sizes import MIB
from lab.state import HostRecord, LabRecord, StateFile, claim
from lab.waiting import wait_for

RUN = """\
import os, subprocess, sys
from lab.servers.directory import ServerDirectory
os.environ.pop("MEMHINT_OWNER", None)
place = ServerDirectory.temporary("left")
server = place.start(["/bin/sleep", "1000"])
print(server.pid, place.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def killed() -> Iterator[tuple[Process, Path]]:
    """A server and its directory, whose owner has been killed."""
    run = subprocess.Popen(
        [sys.executable, "-c", RUN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=paths_root()
    )
    assert run.stdout is not None
    pid, folder = run.stdout.readline().split()
    server = Process.of(int(pid))
    assert server is not None
    run.send_signal(signal.SIGKILL)
    run.communicate()
    yield server, Path(folder)
    server.kill(signal.SIGKILL)


def paths_root() -> Path:
    return Path(__file__).parents[2]


def test_what_belongs_to_nobody_is_ended_and_removed(killed: tuple[Process, Path]) -> None:
    server, folder = killed
    mine = ServerDirectory.temporary("kept")
    try:
        own = mine.start(["/bin/sleep", "1000"])
        said = leftovers.sweep(paths.labs_dir())
        assert any(str(server.pid) in line for line in said)
        assert any(str(folder) in line for line in said)
        wait_for(lambda: not server.alive, 10, "the server that was left behind to end")
        assert not folder.exists()
        assert own.poll() is None
        assert mine.path.exists()
        assert not any(str(server.pid) in line for line in leftovers.sweep(paths.labs_dir()))
        own.kill()
        own.wait()
    finally:
        mine.remove()


@pytest.mark.parametrize("alive", [True, False])
def test_a_lab_whose_keeper_was_killed_too_is_ended(tmp_path: Path, alive: bool) -> None:
    own = Process.of(os.getpid())
    assert own is not None
    directory = tmp_path / "lab-1"
    claim(directory)
    holder = own if alive else Process(own.pid, own.started - 1)
    host = HostRecord("host-1", "u", "lab-1.host-1", {"holder": holder})
    StateFile(directory).save(LabRecord("lab-1", "tcg", True, 1, 0, None, 0, [host]))
    said = leftovers.sweep(tmp_path)
    assert ("lab lab-1" in said) is not alive
    assert directory.exists() is alive


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a cgroup, as root")
@pytest.mark.parametrize("alive", [True, False])
def test_the_cgroup_of_a_lab_whose_directory_is_elsewhere_is_left_alone(tmp_path: Path, alive: bool) -> None:
    cgroup = HostCgroup(f"elsewhere-{os.getpid()}.host-1")
    cgroup.create(64 * MIB, 0)
    guest = subprocess.Popen(["/bin/sleep", "1000"])
    try:
        for path in cgroup.paths if alive else ():
            (path / "cgroup.procs").write_text(str(guest.pid))
        said = leftovers.sweep(tmp_path)
        assert guest.poll() is None
        assert cgroup.memory_path.exists() is alive
        assert any(cgroup.name in line for line in said) is not alive
    finally:
        guest.kill()
        guest.wait()
        cgroup.remove()
