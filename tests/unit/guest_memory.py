"""A process that holds memory as QEMU holds its guest's: private, anonymous and not for children, in small pages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PROGRAM = """
import mmap, sys
memory = mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_DONTFORK)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range(0, {size} // 4096):
    if {touched}:
        memory[page * 4096] = 1
if {huge}:
    memory.madvise(mmap.MADV_HUGEPAGE)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def guest_memory(size: int, touched: str = "True", huge: bool = True) -> Iterator[int]:
    """Its pid, once it has touched its memory.

    :param size: bytes
    :param touched: which pages it touches, as a condition on the number `page`
    :param huge: whether it wants huge pages from then on
    """
    program = _PROGRAM.format(size=size, touched=touched, huge=huge)
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield child.pid
        child.kill()
