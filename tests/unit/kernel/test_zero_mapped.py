"""What leaves a process as its huge pages are split, on the kernel at hand: it is no memory that was given back."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from memhint.kernel.errors import ProcessGone
from memhint.kernel.last_mapping import last_mapping_end
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.smaps import deep_memory
from memhint.kernel.zero_mapped import zero_mapped
from memhint.objects.units import MIB

from .fake_root import FakeRoot

PID = 4711
SCAN = struct.Struct("12Q")  # struct pm_scan_arg
SIZE = 32 * MIB
SLACK = 2 * MIB  # of the interpreter
# Every other page is zeros, in huge pages. Told to, it marks one page of each as cold, so that the kernel splits it, or
# writes to all.
PROCESS = f"""
import ctypes, mmap, sys
libc, huge = ctypes.CDLL(None), {2 * MIB}
memory = mmap.mmap(-1, {SIZE} + huge, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
skip = -address % huge
memory.madvise(mmap.MADV_HUGEPAGE)
for place in range(skip, skip + {SIZE}, 8192):
    memory[place] = 1
print("ready", flush=True)
for line in sys.stdin:
    for place in range(skip, skip + {SIZE}, huge if line == "split\\n" else 4096):
        if line == "split\\n":
            libc.madvise(ctypes.c_void_p(address + place), ctypes.c_size_t(4096), 20)
        else:
            memory[place] = 0
    print("done", flush=True)
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROCESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def tell(child: subprocess.Popen[str], what: str) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(f"{what}\n")
    child.stdin.flush()
    assert child.stdout.readline() == "done\n"


def test_zeros_that_a_split_took_away_are_counted_and_come_back_with_a_write(child: subprocess.Popen[str]) -> None:
    root = KernelRoot()
    if deep_memory(root, child.pid, 0.0).anon_huge < SIZE:
        pytest.skip("this machine gives no huge pages now")
    if zero_mapped(root, child.pid) is None:
        pytest.skip("this kernel does not tell: it came with Linux 6.7")
    before = process_memory(root, child.pid)
    tell(child, "split")
    after, zeros = process_memory(root, child.pid), zero_mapped(root, child.pid)
    assert zeros is not None
    assert after.ksm_zero in (0, None)
    assert abs(before.rss - after.rss - zeros) < SLACK  # on 6.12 and later half of it, before nothing
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 12):
        assert abs(zeros - SIZE // 2) < SLACK
    assert abs(process_footprint(root, child.pid) - before.footprint) < SLACK
    tell(child, "write")
    assert (zero_mapped(root, child.pid) or 0) < SLACK
    assert abs(process_footprint(root, child.pid) - before.footprint) < SLACK


def process_footprint(root: KernelRoot, pid: int) -> int:
    """As the agent counts it."""
    return process_memory(root, pid).footprint + (deep_memory(root, pid, 0.0).zero_other or 0)


@pytest.mark.parametrize(
    ("bits", "last"),
    [
        (47, "7ffe90d54000-7ffe90d75000 rw-p 00000000 00:00 0   [stack]"),  # x86-64
        (39, "7ffe90d000-7ffe92e000 rw-p 00000000 00:00 0   [stack]"),  # arm64 and riscv64 with three levels
        (42, "3ffe90d0000-3ffe92e0000 rw-p 00000000 00:00 0   [stack]"),  # arm64 with pages of 64 KiB
    ],
)
def test_no_address_is_asked_for_that_the_machine_does_not_have(
    fake: FakeRoot, monkeypatch: pytest.MonkeyPatch, bits: int, last: str
) -> None:
    vsyscall = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]"
    text = f"400000-402000 r-xp 00000000 fe:00 2   /usr/bin/qemu\n{last}\n{vsyscall}\n"
    fake.process(maps=text).write(f"proc/{PID}/pagemap", "")
    asked = []

    def scan(_pagemap: int, _request: int, given: bytearray) -> int:
        words = list(SCAN.unpack(given))
        asked.append((words[2], words[3]))
        if words[3] > 1 << bits:
            raise OSError(errno.EFAULT, "Bad address")
        words[4] = words[3]  # all of it was looked at
        given[:] = SCAN.pack(*words)
        return 0

    monkeypatch.setattr("memhint.kernel.pagemap_scan.fcntl.ioctl", scan)
    assert zero_mapped(fake.kernel, PID) == 0
    assert asked == [(0, last_mapping_end(fake.kernel, PID))]


def test_a_process_that_has_no_memory_any_more_is_gone(fake: FakeRoot) -> None:
    fake.process(maps="").write(f"proc/{PID}/pagemap", "")
    with pytest.raises(ProcessGone):
        zero_mapped(fake.kernel, PID)


def test_a_kernel_that_does_not_tell_says_nothing(fake: FakeRoot) -> None:
    assert zero_mapped(fake.process().write(f"proc/{PID}/pagemap", "").kernel, PID) is None
    assert deep_memory(fake.process().remove(f"proc/{PID}/pagemap").kernel, PID, 0.0).zero_other is None
