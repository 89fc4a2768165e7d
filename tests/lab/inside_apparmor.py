"""What test_apparmor has done inside the virtual host: a process as a VM, one as the agent, each confined or not.

Only the standard library is there. The kernel's interfaces are used as memhint.kernel does, by its own code where that
can be loaded here.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memhint.kernel import pagemap_scan
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.guest_ram import read_guest_ram
from memhint.kernel.last_mapping import last_mapping_end
from memhint.kernel.pagemap_scan import PageCategory
from memhint.kernel.process import process_memory
from memhint.kernel.process_madvise import Advice, process_madvise
from memhint.kernel.root import KernelRoot

ROOT = KernelRoot()
SIZE = 4 << 20
KSM = "/sys/kernel/mm/ksm/pages_to_scan"
_SECURITY = Path("/sys/kernel/security")
_GROUP = "/sys/fs/cgroup/vm"
_LIBC = ctypes.CDLL(None, use_errno=True)


def set_up() -> str:
    """Make what is looked at; Y where the kernel enforces AppArmor."""
    subprocess.run(["/bin/mount", "-t", "securityfs", "securityfs", str(_SECURITY)], check=True)
    Path("/sys/fs/cgroup/cgroup.subtree_control").write_text("+memory")
    os.mkdir(_GROUP)
    return Path("/sys/module/apparmor/parameters/enabled").read_text().strip()


def load(name: str) -> None:
    """Give the kernel a compiled profile of /inside, in place of one of the same name."""
    content = Path("/inside", name).read_bytes()
    with (_SECURITY / "apparmor" / ".replace").open("wb", buffering=0) as file:
        assert file.write(content) == len(content)


def started_small(vm: str) -> str:
    """What came of starting /inside/memhint-small-pages as a VM, where /inside/qemu is QEMU: `done`, or why not."""
    for name, place in (("memhint-small-pages", "memhint-small-pages"), ("qemu", f"qemu-system-{os.uname().machine}")):
        program = Path("/usr/bin", place)
        program.write_bytes(Path("/inside", name).read_bytes())
        program.chmod(0o755)
    pid = os.fork()
    if not pid:
        try:
            _become(vm)
            os.execv("/usr/bin/memhint-small-pages", ["memhint-small-pages"])
        except OSError as error:
            os._exit(error.errno or 1)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return "done" if code == 0 else f"refused: {errno.errorcode.get(code, code)}"


def emulator_started(words: list[str]) -> int:
    """The code of /inside/libvirtd as the words start it, which executes an emulator that is not the distribution's: 0,
    or errno."""
    emulator = Path("/root/true")
    for source, place in (("/inside/libvirtd", Path("/usr/sbin/libvirtd")), ("/bin/busybox", emulator)):
        place.write_bytes(Path(source).read_bytes())
        place.chmod(0o755)
    return subprocess.run([*words, str(emulator)], check=False).returncode


def looked_at(vm: str, agent: str) -> dict[str, str]:
    """What came of each thing that an agent does with a VM's process and with the host: `done`, or why not.

    :param vm: the profile of the VM, empty for none
    :param agent: that of the agent
    """
    process, address = _held(vm)
    try:
        return _as(agent, lambda: _tries(process, address))
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _tries(pid: int, address: int) -> dict[str, str]:
    tries: dict[str, Callable[[], Any]] = {
        "status": lambda: process_memory(ROOT, pid),
        "smaps": lambda: read_guest_ram(ROOT, pid),
        "smaps_rollup": lambda: ROOT.read_text(f"proc/{pid}/smaps_rollup"),
        "PAGEMAP_SCAN": lambda: _scan(pid),
        "mem": lambda: _mem(pid, address),
        "process_vm_readv": lambda: _readv(pid, address),
        "process_madvise": lambda: process_madvise(os.pidfd_open(pid), address, SIZE, Advice.COLD),
        "clear_refs": lambda: ROOT.write_text(f"proc/{pid}/clear_refs", "1"),
        "oom_score_adj": lambda: ROOT.write_text(f"proc/{pid}/oom_score_adj", "100"),
        "ksm": lambda: ROOT.write_text(KSM, "100"),
        "cgroup": lambda: ROOT.write_text(f"{_GROUP}/memory.min", "4096"),
        "another's file": lambda: Path("/etc/modules").write_text("x"),
        "another knob": lambda: Path("/proc/sys/vm/swappiness").write_text("60"),
        "a shell": lambda: subprocess.run(["/bin/sh", "-c", ":"], check=True),
    }
    return {name: _outcome(one) for name, one in tries.items()}


def _outcome(one: Callable[[], Any]) -> str:
    try:
        one()
    except KernelInterfaceError as error:
        return f"refused: {error}"
    except OSError as error:
        return f"refused: {errno.errorcode.get(error.errno or 0)}"
    return "done"


def _scan(pid: int) -> None:
    pagemap = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
    try:
        end = last_mapping_end(ROOT, pid)
        assert pagemap_scan.total(pagemap, end, PageCategory.PRESENT, without=PageCategory.ZERO) >= SIZE
    finally:
        os.close(pagemap)


def _mem(pid: int, address: int) -> None:
    fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    try:
        assert os.pread(fd, 4, address) == b"held"
    finally:
        os.close(fd)


class _Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _readv(pid: int, address: int) -> None:
    buffer = ctypes.create_string_buffer(4)
    here, there = _Iovec(ctypes.addressof(buffer), 4), _Iovec(address, 4)
    if _LIBC.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) != 4:
        raise OSError(ctypes.get_errno(), "process_vm_readv")
    assert buffer.raw == b"held"


def _held(profile: str) -> tuple[int, int]:
    """A process with memory as a guest's, and where that is."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            memory = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.madvise(mmap.MADV_DONTDUMP)
            for at in range(0, SIZE, mmap.PAGESIZE):
                memory[at : at + 4] = b"held"
            _become(profile)
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            os.write(write, str(address).encode())
            while True:
                signal.pause()  # until it is killed
        finally:
            os._exit(1)
    os.close(write)
    said = os.read(read, 64)
    os.close(read)
    _check(pid, profile)
    return pid, int(said)


def _as(profile: str, do: Callable[[], dict[str, str]]) -> dict[str, str]:
    """What a child with a profile came to."""
    read, write = os.pipe()
    go, let = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            _become(profile)
            os.write(write, b"\n")
            os.read(go, 1)
            answer = json.dumps(do())
        except BaseException as error:  # noqa: BLE001 - the other side tells
            answer = json.dumps({"error": repr(error)})
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        file.readline()
        _check(pid, profile)
        os.write(let, b"g")
        said: dict[str, str] = json.loads(file.read())
    os.close(go)
    os.close(let)
    os.waitpid(pid, 0)
    return said


def _become(profile: str) -> None:
    if profile:
        Path("/proc/self/attr/apparmor/current").write_text(f"changeprofile {profile}")


def _check(pid: int, profile: str) -> None:
    """What a child has become, which a confined one may not read itself."""
    label = Path(f"/proc/{pid}/attr/apparmor/current").read_text().strip("\0\n")
    assert label == (f"{profile} (enforce)" if profile else "unconfined"), label
