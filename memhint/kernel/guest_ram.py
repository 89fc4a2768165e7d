"""The mappings behind a guest's memory, from /proc/PID/smaps.

Guest memory is what QEMU maps as RAM blocks: private anonymous memory that it marks as mergeable (``mg``; it goes with
merge=false) or not to be inherited by a child (``dc``; it stays). QEMU's heap, stacks and code buffers have neither. A
mapping that userfaultfd serves (``um``, ``ui``: post-copy migration, snapshots) is left out: reading a page that is not
there would ask for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memhint.kernel.errors import InterfaceMalformed, ProcessGone
from memhint.kernel.fields import number
from memhint.kernel.process import process_lines
from memhint.kernel.root import KernelRoot
from memhint.objects.units import KIB

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ([r-][w-][x-][ps]) [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ ([0-9]+)(?: |$)")
_RAM = frozenset({"mg", "dc"})
_SERVED = frozenset({"um", "ui"})
_KVM = " anon_inode:kvm-vcpu:"  # QEMU maps one page of each virtual processor
_FIELDS = ("Rss:", "Referenced:", "Swap:")
# How lines of use begin, which are few of the 25 of a mapping.
_BEGIN_OF_MAPPING = frozenset("0123456789abcdef")
_BEGIN = _BEGIN_OF_MAPPING | frozenset("RSV")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of addresses, ``end`` excluded."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class GuestRam:
    """A process's guest memory: where it is, and bytes of it that are present, were referenced, and are in swap."""

    spans: tuple[Span, ...]  # by address
    resident: int
    referenced: int
    kvm: bool  # a guest runs on the hardware: it touches memory by page tables of its own
    swapped: int = 0

    @property
    def size(self) -> int:
        """Bytes of addresses."""
        return sum(span.size for span in self.spans)


def read_guest_ram(root: KernelRoot, pid: int) -> GuestRam:
    """What holds a guest's memory. Walks page tables: about 10 ms per GiB.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when smaps cannot be read, or a mapping has no flags
    """
    path = root.path(f"proc/{pid}/smaps")
    spans = []
    span: Span | None = None
    sizes: dict[str, int] = {}
    private = seen = kvm = False
    resident = referenced = swapped = 0
    for line in process_lines(root, pid, "smaps"):
        begin = line[:1]
        if begin not in _BEGIN:
            continue
        if begin in _BEGIN_OF_MAPPING:
            found = _MAPPING.match(line)
            if found is None:
                continue
            if span is not None:
                raise InterfaceMalformed(path, "a mapping without VmFlags")
            span, sizes = Span(int(found[1], 16), int(found[2], 16)), {}
            private = found[3].startswith("rw") and found[3].endswith("p") and found[4] == "0"
            kvm = kvm or _KVM in line
        elif line.startswith(_FIELDS):
            if private:  # of others nothing is asked
                name, _, value = line.partition(":")
                sizes[name] = _kib(value, path)
        elif line.startswith("VmFlags:"):
            if span is None or span.end <= span.start:
                raise InterfaceMalformed(path, "VmFlags without a mapping")
            flags = frozenset(line.split()[1:])
            if private and flags & _RAM and not flags & _SERVED:
                spans.append(span)
                held = min(sizes.get("Rss", 0), span.size)
                resident += held
                referenced += min(sizes.get("Referenced", 0), held)
                swapped += min(sizes.get("Swap", 0), span.size)
            span, seen = None, True
    if span is not None:
        raise InterfaceMalformed(path, "a mapping without VmFlags")
    if not seen:
        raise ProcessGone(path, "it has no mappings")
    return GuestRam(tuple(spans), resident, referenced, kvm, swapped)


def _kib(value: str, path: str) -> int:
    words = value.split()
    if len(words) != 2 or words[1] != "kB":
        raise InterfaceMalformed(path, f"{value[:40]!r} is not in kB")
    return number(words[0], path) * KIB
