"""/proc/PID/smaps, its rollup and numa_maps: exact, and at about 10 ms per GiB not for every cycle."""

from __future__ import annotations

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.kernel.fields import colons, number
from memhint.kernel.kvm_pages import guest_mappings
from memhint.kernel.numa import cpus_by_node, pages_by_node
from memhint.kernel.process import process_lines, read_process_file
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.kernel.zero_mapped import zero_mapped
from memhint.objects.domain import DeepMemory
from memhint.objects.units import KIB, MIB

_NUMA_MAPS_AT_MOST = 32 * MIB  # every mapping is a line, and files mapped by name have long ones


def deep_memory(root: KernelRoot, pid: int, at: float, page_size: int = PAGE_SIZE) -> DeepMemory:
    """The share of a process in bytes, as of ``at`` (unix seconds); without NUMA in the kernel no nodes.

    The kernel walks the page tables under the lock that page faults of the VM need: call it seldom.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when a file cannot be read or makes no sense
    """
    rollup = colons(read_process_file(root, pid, "smaps_rollup"), root.path(f"proc/{pid}/smaps_rollup"))
    pss, rss, anon_huge = rollup.kib("Pss"), rollup.kib("Rss"), rollup.kib("AnonHugePages")
    try:
        maps = read_process_file(root, pid, "numa_maps", limit=_NUMA_MAPS_AT_MOST)
        by_node = pages_by_node(maps, page_size, root.path(f"proc/{pid}/numa_maps"))
    except InterfaceMissing:
        by_node = {}
    try:
        cpus = cpus_by_node(root, pid) if by_node else {}
    except InterfaceMissing:
        cpus = {}
    try:
        mappings = guest_mappings(root, pid, page_size)
    except KernelInterfaceError:
        mappings = None  # debugfs is for those who look inside the kernel: nothing here relies on it
    try:
        zero_other = zero_mapped(root, pid, page_size)
    except InterfaceMissing:
        zero_other = None  # a kernel that shows no pagemap
    return DeepMemory(
        at=at,
        pss=pss,
        rss=rss,
        anon_huge=anon_huge,
        by_node=by_node,
        cpus_by_node=cpus,
        mappings=mappings,
        zero_other=zero_other,
    )


def mergeable_bytes(root: KernelRoot, pid: int) -> int:
    """Bytes of address space that KSM may merge: the mappings whose VmFlags contain ``mg``.

    0 is a proof that nothing can be merged, so every mapping must be seen with its flags.

    :raises ProcessGone: when the process ended
    :raises KernelInterfaceError: when the file cannot be read, or a mapping has no flags
    """
    path = root.path(f"proc/{pid}/smaps")
    mergeable = 0
    size: int | None = None
    seen = False
    for line in process_lines(root, pid, "smaps"):
        if line.startswith("Size:"):
            if size is not None:
                raise InterfaceMalformed(path, "a mapping without VmFlags")
            words = line.split()
            if len(words) != 3 or words[2] != "kB":
                raise InterfaceMalformed(path, f"{line[:80]!r} is not in kB")
            size = number(words[1], path) * KIB
        elif line.startswith("VmFlags:"):
            if size is None:
                raise InterfaceMalformed(path, "VmFlags without a mapping")
            if "mg" in line.split()[1:]:
                mergeable += size
            size = None
            seen = True
    if size is not None:
        raise InterfaceMalformed(path, "a mapping without VmFlags")
    if not seen:
        # a process that is ending shows an empty file, which must not pass for "nothing is mergeable"
        raise ProcessGone(path, "it has no mappings")
    return mergeable
