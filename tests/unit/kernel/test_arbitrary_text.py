"""Whatever a file holds: a value that makes sense, or a KernelInterfaceError, and nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memhint.kernel.buddy import free_in_blocks
from memhint.kernel.errors import KernelInterfaceError
from memhint.kernel.guest_pages import guest_ram
from memhint.kernel.host import observe_host
from memhint.kernel.hugetlb import hugetlb_pools
from memhint.kernel.ksm import KsmKnob, read_knob, read_ksm
from memhint.kernel.kvm_pages import guest_mappings
from memhint.kernel.last_mapping import last_mapping_end
from memhint.kernel.memcg import amount, cgroup_memory, cgroup_oom_kills, cgroup_swap_activity, members
from memhint.kernel.meminfo import machine_memory
from memhint.kernel.numa import cpus_by_node, numa_nodes, pages_by_node, watermarks
from memhint.kernel.process import find_by_comm, oom_score_adj, pid_from_file, process_is, process_memory
from memhint.kernel.process_cgroup import home
from memhint.kernel.psi import read_pressure
from memhint.kernel.smaps import deep_memory, mergeable_bytes
from memhint.kernel.swap import disk_swap, swap_activity
from memhint.kernel.thp import compaction_waits, huge_activity, read_thp
from memhint.kernel.vmstat import oom_kills

from . import recorded
from .fake_root import FakeRoot
from .test_memcg import V1, V2, stat_v1, v1, v2

PID = 4711
MOUNTS = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
CPU_THREAD = f"4712 (CPU 0/KVM) S {'0 ' * 35}3 0\n"
CGROUP = f"0::{V2.removeprefix('/sys/fs/cgroup')}\n"


@pytest.fixture(scope="module")
def whole() -> Iterator[FakeRoot]:
    """One host for all examples: each replaces a file and puts it back."""
    with tempfile.TemporaryDirectory() as directory:
        fake = v2(v1(FakeRoot(Path(directory)).host().process()))
        fake.write("sys/devices/system/node/node0/cpulist", "0-3,8\n").write(f"proc/{PID}/task/4712/stat", CPU_THREAD)
        fake.write_all(f"sys/kernel/debug/kvm/{PID}-13", {f"pages_{size}": "9\n" for size in ("4k", "2m", "1g")})
        yield fake.write("proc/self/mounts", MOUNTS).write(f"proc/{PID}/cgroup", CGROUP)


READERS: dict[str, tuple[str, str, Callable[[FakeRoot], object]]] = {
    "meminfo": ("proc/meminfo", recorded.MEMINFO, lambda fake: machine_memory(fake.kernel)),
    "swaps": ("proc/swaps", recorded.SWAPS, lambda fake: (disk_swap(fake.kernel), machine_memory(fake.kernel))),
    "cgroup": (f"proc/{PID}/cgroup", CGROUP, lambda fake: home(fake.kernel, PID)),
    "mounts": ("proc/self/mounts", MOUNTS, lambda fake: home(fake.kernel, PID)),
    "amount": (f"{V2}/memory.swap.max", "max\n", lambda fake: amount(fake.kernel, f"{V2}/memory.swap.max")),
    "oom_score_adj": (f"proc/{PID}/oom_score_adj", "-5\n", lambda fake: oom_score_adj(fake.kernel, PID) + 1000),
    "vmstat": ("proc/vmstat", recorded.VMSTAT, lambda fake: (oom_kills(fake.kernel), swap_activity(fake.kernel))),
    "huge activity": ("proc/vmstat", recorded.VMSTAT, lambda fake: huge_activity(fake.kernel)),
    "waits for huge pages": ("proc/vmstat", recorded.VMSTAT, lambda fake: compaction_waits(fake.kernel)),
    "buddyinfo": (
        "proc/buddyinfo",
        recorded.BUDDYINFO,
        lambda fake: free_in_blocks(fake.kernel, 2 * 1024 * 1024, 4096),
    ),
    "cpulist": (
        "sys/devices/system/node/node0/cpulist",
        "0-3,8\n",
        lambda fake: cpus_by_node(fake.kernel, PID),
    ),
    "thread": (f"proc/{PID}/task/4712/stat", CPU_THREAD, lambda fake: cpus_by_node(fake.kernel, PID)),
    "kvm pages": (f"sys/kernel/debug/kvm/{PID}-13/pages_2m", "9\n", lambda fake: guest_mappings(fake.kernel, PID)),
    "pressure": ("proc/pressure/memory", recorded.PRESSURE, lambda fake: read_pressure(fake.kernel)),
    "ksm": ("sys/kernel/mm/ksm/pages_sharing", "1\n", lambda fake: read_ksm(fake.kernel)),
    "ksm_zero_pages": ("sys/kernel/mm/ksm/ksm_zero_pages", "1\n", lambda fake: read_ksm(fake.kernel).zero_pages),
    "advisor": (
        "sys/kernel/mm/ksm/advisor_mode",
        "[none] scan-time\n",
        lambda fake: read_knob(fake.kernel, KsmKnob.ADVISOR_MODE),
    ),
    "thp": ("sys/kernel/mm/transparent_hugepage/enabled", "[always] never\n", lambda fake: read_thp(fake.kernel)),
    "node": ("sys/devices/system/node/node0/meminfo", recorded.NODE_MEMINFO, lambda fake: numa_nodes(fake.kernel)),
    "zones": ("proc/zoneinfo", "Node 0, zone DMA\n low 1\n protection: (0, 7)\n", lambda fake: watermarks(fake.kernel)),
    "hugetlb": (
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
        "8\n",
        lambda fake: hugetlb_pools(fake.kernel),
    ),
    "status": (f"proc/{PID}/status", recorded.STATUS, lambda fake: process_memory(fake.kernel, PID)),
    "stat": (f"proc/{PID}/stat", recorded.STAT, lambda fake: process_memory(fake.kernel, PID)),
    "ksm_stat": (f"proc/{PID}/ksm_stat", recorded.KSM_STAT_6_18, lambda fake: process_memory(fake.kernel, PID)),
    "cmdline": (f"proc/{PID}/cmdline", recorded.CMDLINE, lambda fake: process_is(fake.kernel, PID, recorded.UUID)),
    "comm": (f"proc/{PID}/comm", "momd\n", lambda fake: find_by_comm(fake.kernel, frozenset({"momd"}))),
    "pid file": ("run/a.pid", "4711\n", lambda fake: pid_from_file(fake.path / "run/a.pid")),
    "rollup": (f"proc/{PID}/smaps_rollup", recorded.SMAPS_ROLLUP, lambda fake: deep_memory(fake.kernel, PID, 0.0)),
    "numa_maps": (f"proc/{PID}/numa_maps", recorded.NUMA_MAPS, lambda fake: deep_memory(fake.kernel, PID, 0.0)),
    "maps": (f"proc/{PID}/maps", recorded.MAPS, lambda fake: last_mapping_end(fake.kernel, PID)),
    "smaps": (f"proc/{PID}/smaps", recorded.SMAPS, lambda fake: mergeable_bytes(fake.kernel, PID)),
    "guest ram": (f"proc/{PID}/smaps", recorded.SMAPS, lambda fake: guest_ram(fake.kernel, PID)),
    "v1 stat": (f"{V1}/memory.stat", stat_v1(1, 2), lambda fake: cgroup_memory(fake.kernel, V1)),
    "v1 limit": (f"{V1}/memory.limit_in_bytes", "9\n", lambda fake: cgroup_memory(fake.kernel, V1)),
    "v2 stat": (
        f"{V2}/memory.stat",
        "inactive_file 1\nactive_file 2\nslab_reclaimable 3\npswpin 4\npswpout 5\n",
        lambda fake: (cgroup_memory(fake.kernel, V2), cgroup_swap_activity(fake.kernel, V2)),
    ),
    "v2 events": (f"{V2}/memory.events", "oom_kill 1\n", lambda fake: cgroup_oom_kills(fake.kernel, V2)),
    "procs": (f"{V2}/cgroup.procs", "1\n2\n", lambda fake: members(fake.kernel, V2)),
}
MAY_BE_NEGATIVE = ("general_profit=",)


@st.composite
def damaged(draw: st.DrawFn, text: str) -> str:
    """A recorded text with a piece replaced: nearer to the parsers' edges than noise is."""
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 40)))
    piece = draw(st.one_of(st.just(""), st.integers().map(str), st.text(max_size=12)))
    return text[:start] + piece + text[end:]


def has_negative(value: object) -> bool:
    words = repr(value).replace("{", " ").replace("(", " ").replace(",", " ").split()
    numbers = [word.rpartition("=")[2] for word in words if not word.startswith(MAY_BE_NEGATIVE)]
    return any(number[:1] == "-" and number[1:2].isdigit() for number in numbers)


def test_the_check_for_negatives_sees_one_in_a_record() -> None:
    assert has_negative((1, {0: -4096}))
    assert not has_negative((1, {0: 4096}))


@pytest.mark.parametrize("reader", READERS)
@settings(deadline=None)
@given(data=st.data())
def test_any_text_is_a_value_or_a_typed_error(whole: FakeRoot, reader: str, data: st.DataObject) -> None:
    relative, good, read = READERS[reader]
    before = whole.text(relative) if whole.kernel.exists(relative) else good
    whole.write(relative, data.draw(st.one_of(st.text(max_size=300), damaged(good))))
    try:
        value = read(whole)
    except KernelInterfaceError:
        value = None
    finally:
        whole.write(relative, before)
    assert not has_negative(value)


@pytest.mark.parametrize("reader", READERS)
def test_the_recorded_text_of_each_reader_is_a_value(whole: FakeRoot, reader: str) -> None:
    relative, good, read = READERS[reader]
    before = whole.text(relative) if whole.kernel.exists(relative) else good
    whole.write(relative, good)
    try:
        assert read(whole) is not None
    finally:
        whole.write(relative, before)


@settings(deadline=None)
@given(text=st.text())
def test_any_part_of_the_host_that_is_garbage_is_a_gap(whole: FakeRoot, text: str) -> None:
    relative = "proc/vmstat"
    before = whole.text(relative)
    whole.write(relative, text)
    try:
        assert {gap.what for gap in observe_host(whole.kernel, 0.0).gaps} <= {"swap", "oom_kills", "huge_activity"}
    finally:
        whole.write(relative, before)


@given(counts=st.dictionaries(st.integers(0, 9), st.integers(0, 1 << 40), min_size=1), kib=st.sampled_from([4, 2048]))
def test_numa_maps_add_up(counts: dict[int, int], kib: int) -> None:
    line = "7f00 default anon=1 " + " ".join(f"N{node}={pages}" for node, pages in counts.items())
    text = f"{line} kernelpagesize_kB={kib}\n{line}\n"
    assert pages_by_node(text, 4096) == {node: pages * (kib * 1024 + 4096) for node, pages in counts.items()}


@settings(deadline=None)
@given(
    rss=st.integers(0, 1 << 40),
    swap=st.integers(0, 1 << 40),
    ticks=st.integers(0, 1 << 62),
    comm=st.text("ab() \n", max_size=15),
)
def test_process_memory_reads_what_the_kernel_wrote(
    whole: FakeRoot, rss: int, swap: int, ticks: int, comm: str
) -> None:
    status = recorded.STATUS.replace("VmRSS:\t 1300004", f"VmRSS:\t{rss}").replace(
        "VmSwap:\t    2048", f"VmSwap:\t{swap}"
    )
    whole.process(900, status=status, stat=recorded.stat_of(comm).replace("91971", str(ticks)))
    memory = process_memory(whole.kernel, 900, 4096)
    assert (memory.rss, memory.swap, memory.start_ticks) == (rss * 1024, swap * 1024, ticks)
