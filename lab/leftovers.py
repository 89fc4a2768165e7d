"""What a killed test run leaves behind: found by who started it, ended and removed, and nothing else.

Whoever runs tests marks its environment, which all that it starts inherits, and the directories that it makes. A mark
names a process; once that has ended, what bears its mark belongs to nobody.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab import swap
from lab.cgroup import PARENT, HostCgroup, detect
from lab.errors import StateError
from lab.ksm import put_back_left
from lab.process import Process, end_all
from lab.state import StateFile, existing, is_lab
from lab.teardown import teardown

OWNER = "MEMHINT_OWNER"
"""In the environment: pid and start time of the process that everything belongs to."""
_FILE = ".owner"
_GRACE = 5.0  # seconds between SIGTERM and SIGKILL


def mark() -> None:
    """Mark this process's environment with itself, unless it belongs to another already."""
    own = Process.of(os.getpid())
    assert own is not None
    os.environ.setdefault(OWNER, f"{own.pid}.{own.started}")


def scratch(name: str, parent: str | None = None) -> Path:
    """A new directory of whoever marked this process."""
    mark()
    folder = Path(tempfile.mkdtemp(prefix=f"memhint-{name}-", dir=parent))
    (folder / _FILE).write_text(os.environ[OWNER])
    return folder


def sweep(labs: Path) -> list[str]:
    """End and remove what belongs to nobody any more; a line for each thing.

    :param labs: the directory of labs. Of labs only those are touched of which no process is left
    """
    said = []
    for name in existing(labs):
        if _dead(labs / name) and teardown(labs / name):
            said.append(f"lab {name}")
    if put_back_left():
        said.append("settings of this machine's KSM")
    for process in (left := list(_processes())):
        said.append(f"process {process.pid}: {_command(process.pid)}")
    end_all(left, _GRACE)
    for cgroup in _cgroups(labs):
        if cgroup.processes():
            continue  # of a lab whose directory is elsewhere: what killed runs had started has ended above, by its mark
        cgroup.remove()
        said.append(f"cgroup {PARENT}/{cgroup.name}")
    for file in swap.active():
        if not Path(file).exists():
            continue  # of somebody with another root directory, as in a container: it is not here to be judged
        folder = Path(file).parent
        # Only a lab's: the machine's own swap may be below the same directory.
        ours = file == str(labs / folder.name / "swap") and is_lab(folder)
        if ours and not StateFile(folder).exists():
            swap.remove(Path(file))
            said.append(f"swap file {file}")
    for folder in _folders():
        swap.remove_below(folder)
        shutil.rmtree(folder, ignore_errors=True)
        said.append(f"directory {folder}")
    return said


def _dead(directory: Path) -> bool:
    """Whether all that this lab had started has ended, and no keeper has cleaned up: it was killed too."""
    try:
        record = StateFile(directory).load()
    except (StateError, TypeError, KeyError):
        return False  # it begins, is of another version, or is damaged: `teardown` is the user's word
    started = [process for host in record.hosts for process in host.processes.values()]
    return bool(started) and not any(process.alive for process in started)


def _gone(owner: str) -> bool:
    pid, _, started = owner.strip().partition(".")
    return pid.isdigit() and started.isdigit() and not Process(int(pid), int(started)).alive


def _processes() -> Iterator[Process]:
    word = f"{OWNER}=".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        owner = next((one.removeprefix(word).decode(errors="replace") for one in words if one.startswith(word)), None)
        if owner is not None and _gone(owner) and (found := Process.of(int(path.parent.name))) is not None:
            yield found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()[:100]
    except OSError:
        return "has just ended"


def _cgroups(labs: Path) -> Iterator[HostCgroup]:
    hierarchies = detect()
    roots = {hierarchies.memory, hierarchies.unified or hierarchies.memory}
    names = {path.name for root in roots for path in (root / PARENT).glob("*.*") if path.is_dir()}
    for name in sorted(names):
        if not (labs / name.partition(".")[0]).exists():
            yield HostCgroup(name)


def _folders() -> Iterator[Path]:
    for file in sorted({Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")}):
        for owner in file.glob(f"memhint-*/{_FILE}"):
            try:
                if _gone(owner.read_text()):
                    yield owner.parent
            except OSError:
                continue  # removed meanwhile
