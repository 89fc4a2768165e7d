"""Stand-ins behind the levers' interfaces: a definition, QEMU's merge property."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memhint.objects.units import MIB
from memhint.virt.errors import LibvirtCallFailed
from memhint.virt.memory_blocks import Block
from tests.unit.kernel.fake_root import FakeRoot

PAGE = 4096
BASE = 0x7F0000000000  # where it has the guest's memory


class FakeNextBoot:
    """A domain's definition for its next boot."""

    def __init__(self, value: str | None = None) -> None:
        self.value = value
        self.looks = 0
        self.anew = True  # whether its next start is a boot

    def reporting(self) -> str | None:
        self.looks += 1
        return self.value

    def set_reporting(self, value: str | None) -> None:
        self.value = value

    def begins_anew(self) -> bool:
        return self.anew


class FakeMonitor:
    """QEMU with one memory object, whose merge shows in the host's smaps as it does with a real one.

    ``deaf``: QEMU answers success and nothing changes, as when its madvise fails.
    ``defined``: what the VM's definition says of its object; QEMU marks it all the same when it starts.
    """

    def __init__(self, root: FakeRoot, pid: int, size: int, merge: bool = True, defined: bool = True) -> None:
        self.root, self.pid, self.size, self.merge = root, pid, size, merge
        self.said = merge and defined  # the property
        self.deaf = False
        self.broken = False
        self.history: list[bool] = []
        self.ranges: set[int] = set()  # offsets of pages that were marked by themselves
        self.by_range = False  # whether this QEMU can
        self.calls: list[tuple[tuple[int, int], ...]] = []
        self.starting = False  # its guest's memory is not there yet
        self.separated: Callable[[], None] = lambda: None  # called as its pages are
        self.show()

    def show(self) -> None:
        marked = self.size if self.merge else PAGE * len(self.ranges)
        rows = []
        for size, flag in ((0, " mg"), (MIB, "")) if self.starting else ((marked, " mg"), (self.size - marked, "")):
            if size:
                head = f"{BASE:x}-{BASE + size:x} rw-p 00000000 00:00 0 "
                rows.append(f"{head}\nSize: {size // 1024} kB\nVmFlags: rd wr mr mw me dc ac hg{flag} \n")
        self.root.write(f"proc/{self.pid}/smaps", "".join(rows))

    def memory_backends(self) -> list[str]:
        if self.broken or self.starting:
            raise LibvirtCallFailed("the monitor does not answer")
        return ["/objects/pc.ram"]

    def get(self, path: str, name: str) -> object:
        assert (path, name) == ("/objects/pc.ram", "merge")
        return self.said

    def set(self, path: str, name: str, value: object) -> None:
        assert (path, name) == ("/objects/pc.ram", "merge")
        assert isinstance(value, bool)
        self.history.append(value)
        if self.deaf:
            self.said = value
        elif value is not self.said or self.ranges:
            if not value:
                self.separated()
            self.merge = self.said = value
            self.ranges.clear()
        self.show()

    def marks_ranges(self) -> bool:
        if self.broken:
            raise LibvirtCallFailed("the monitor does not answer")
        return self.by_range

    def memory_blocks(self) -> dict[str, Block]:
        if self.broken:
            raise LibvirtCallFailed("the monitor does not answer")
        return {"/objects/pc.ram": Block(BASE, self.size)}

    def merge_ranges(self, path: str, merge: bool, ranges: Sequence[tuple[int, int]]) -> None:
        assert path == "/objects/pc.ram"
        assert merge
        assert self.by_range
        self.calls.append(tuple(ranges))
        for start, end in ranges:
            assert 0 <= start < end <= self.size
            self.ranges |= set() if self.deaf else set(range(start, end, PAGE))
        self.show()
