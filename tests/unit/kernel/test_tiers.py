"""Which nodes are fast, on which a guest's memory lies and may lie, and moving it on the kernel at hand."""

from __future__ import annotations

import errno
from array import array
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.kernel.errors import InterfaceMalformed, InterfaceMissing, KernelInterfaceError, ProcessGone
from memhint.kernel.guest_nodes import read_bounds, where
from memhint.kernel.guest_ram import Span, read_guest_ram
from memhint.kernel.move_pages import Moved, PageMover, _one_of_each
from memhint.kernel.numa import cpus_may_run_on, memory_may_lie_on, policies_by_start
from memhint.kernel.process import process_memory
from memhint.kernel.root import KernelRoot
from memhint.kernel.tiers import kernel_tiers, memory_tiers
from memhint.objects.heat import NodeRange
from memhint.objects.units import MIB
from tests.unit.guest_memory import guest_memory

from .fake_root import FakeRoot

PAGE, HUGE = 4096, 2 * MIB
NODES = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"


@pytest.fixture
def guest() -> Iterator[int]:
    with guest_memory(16 * MIB, f"page < {8 * MIB // PAGE}", huge=False) as pid:
        yield pid


def test_tiers_come_in_the_order_of_their_distance(fake: FakeRoot) -> None:
    fake.write(f"{NODES}/has_memory", "0-3\n").write(f"{NODES}/has_cpu", "0-1\n")
    fake.write(f"{TIERS}/memory_tier22/nodelist", "3\n").write(f"{TIERS}/memory_tier4/nodelist", "0-1\n")
    fake.write(f"{TIERS}/memory_tier11/nodelist", "2\n").write(f"{TIERS}/uevent", "")
    assert memory_tiers(fake.kernel) == ((0, 1), (2,), (3,))


def test_a_node_without_memory_is_in_no_tier(fake: FakeRoot) -> None:
    fake.write(f"{NODES}/has_memory", "0\n").write(f"{NODES}/has_cpu", "0-1\n")
    fake.write(f"{TIERS}/memory_tier4/nodelist", "0\n").write(f"{TIERS}/memory_tier22/nodelist", "\n")
    assert memory_tiers(fake.kernel) == ((0,),)


def test_where_the_kernel_tells_nothing_a_node_without_processors_is_slow(fake: FakeRoot) -> None:
    fake.write(f"{NODES}/has_memory", "0-2\n").write(f"{NODES}/has_cpu", "0-1\n")
    assert memory_tiers(fake.kernel) == ((0, 1), (2,))
    # ... nor where it tells of some only
    fake.write(f"{TIERS}/memory_tier4/nodelist", "0\n")
    assert memory_tiers(fake.kernel) == ((0, 1), (2,))


def test_without_numa_there_are_no_tiers(fake: FakeRoot) -> None:
    with pytest.raises(InterfaceMissing):
        memory_tiers(fake.kernel)


@pytest.mark.parametrize(("text", "own"), [("0", False), ("1", False), ("2", True), ("3", True), (None, False)])
def test_a_kernel_that_moves_memory_between_tiers_says_so(fake: FakeRoot, text: str | None, own: bool) -> None:
    if text is not None:
        fake.write("proc/sys/kernel/numa_balancing", text + "\n")
    assert kernel_tiers(fake.kernel) is own


def test_each_mapping_s_own_policy_is_read() -> None:
    text = "\n".join(
        (
            "7f0000000000 default anon=3 dirty=3 N0=3 kernelpagesize_kB=4",
            "7f0000100000 local anon=3",
            "7f0000200000 bind:0,2-3 anon=1 N0=1",
            "7f0000300000 prefer:1 file=/x",
            "7f0000400000 prefer (many):0-1",
            "7f0000500000 bind=static|balancing:1 anon=1",
            "7f0000600000 weighted interleave:0-1 anon=1",
            "7f0000700000 preferential:0-1 anon=1",
            "",
        )
    )
    found = policies_by_start(text)
    assert [found[0x7F0000000000 + at * 0x100000] for at in range(8)] == [
        None,
        None,
        frozenset({0, 2, 3}),
        frozenset({1}),
        frozenset({0, 1}),
        frozenset({1}),
        frozenset({0, 1}),
        frozenset(),
    ]


@given(st.text())
def test_any_text_of_policies_is_read_or_malformed(text: str) -> None:
    try:
        policies_by_start(text)
    except InterfaceMalformed:
        return


def test_a_process_s_nodes_are_those_of_its_cpuset_and_its_cpus(fake: FakeRoot) -> None:
    fake.write(f"{NODES}/node0/cpulist", "0-1\n").write(f"{NODES}/node1/cpulist", "2-3\n")
    fake.write("proc/7/status", "Name:\tqemu\nMems_allowed_list:\t0-1\n")
    for thread, name, cpus in ((7, "qemu", "0-3"), (8, "CPU 0/KVM", "1-3"), (9, "CPU 1/KVM", "2-3")):
        fake.write(f"proc/7/task/{thread}/stat", f"{thread} ({name}) S 1")
        fake.write(f"proc/7/task/{thread}/status", f"Cpus_allowed_list:\t{cpus}\n")
    assert memory_may_lie_on(fake.kernel, 7) == {0, 1}
    assert cpus_may_run_on(fake.kernel, 7) == {1}
    fake.write("proc/7/status", "Name:\tqemu\n")
    with pytest.raises(ProcessGone):
        memory_may_lie_on(fake.kernel, 7)


def test_where_no_thread_is_a_virtual_cpu_none_may_run_anywhere(fake: FakeRoot) -> None:
    fake.write(f"{NODES}/node0/cpulist", "0-1\n").write("proc/7/task/7/stat", "7 (qemu) S 1")
    assert cpus_may_run_on(fake.kernel, 7) == frozenset()


def test_the_first_page_of_each_block_stands_for_a_huge_page() -> None:
    pages = [PAGE, 2 * PAGE, HUGE, HUGE + PAGE, 5 * HUGE - PAGE]
    assert list(_one_of_each(pages, HUGE)) == [PAGE, HUGE, 5 * HUGE - PAGE]


def mover(pid: int) -> PageMover:
    try:
        return PageMover(KernelRoot(), process_memory(KernelRoot(), pid).instance)
    except (InterfaceMissing, KernelInterfaceError) as error:
        pytest.skip(f"this kernel moves nobody's pages here: {error}")


def test_what_lies_there_already_and_what_has_no_memory_are_told_apart(guest: int) -> None:
    (span,) = (one for one in read_guest_ram(KernelRoot(), guest).spans if one.size >= 16 * MIB)
    with mover(guest) as pages:
        node = pages.nodes(array("Q", [span.start]))[0]
        touched = pages.move(span.start, span.start + 16 * MIB, node)
        assert (touched.moved, touched.there, touched.absent) == (0, 8 * MIB, 8 * MIB)
        assert not touched.failed


def test_a_node_that_is_not_there_is_said_and_nothing_moves(guest: int) -> None:
    (span,) = (one for one in read_guest_ram(KernelRoot(), guest).spans if one.size >= 16 * MIB)
    with mover(guest) as pages:
        done = pages.move(span.start, span.start + 16 * MIB, 1000)
        assert done.no_node
        assert done.moved == 0
        assert sum(done.failed.values()) == 8 * MIB


def test_it_is_found_where_a_guest_s_memory_lies_and_may_lie(guest: int) -> None:
    try:
        bounds = read_bounds(KernelRoot(), guest)
    except InterfaceMissing as error:
        pytest.skip(f"no NUMA here: {error}")
    assert bounds.nodes
    assert all(span.start % HUGE == span.end % HUGE == 0 for span in bounds.spans)
    with mover(guest) as pages:
        lying = list(where(pages, bounds.spans))
    assert sum(one.bytes for one in lying) == pytest.approx(8 * MIB, abs=2 * HUGE)
    assert all(one.start % HUGE == one.end % HUGE == 0 for one in lying)


@pytest.mark.parametrize("nodes", [2, 3])
def test_pages_dealt_out_by_turns_lie_on_every_node_that_has_some(nodes: int) -> None:
    """As interleaved memory of small pages does: half of a block that is hot may lie on the slow node."""
    kernel = Kernel({page * PAGE: page % nodes for page in range(2 * HUGE // PAGE)}, set())
    lying = list(where(kernel, [Span(0, 2 * HUGE)]))
    assert {one.node for one in lying} == set(range(nodes))
    assert all((one.start, one.end) == (0, 2 * HUGE) for one in lying)
    assert sum(one.bytes for one in lying) == 2 * HUGE
    assert min(one.bytes for one in lying) >= HUGE // 2


def test_stray_pages_of_a_block_count_for_the_node_of_the_others() -> None:
    kernel = Kernel({page * PAGE: int(page % 512 == 0) for page in range(2 * HUGE // PAGE)}, set())
    assert list(where(kernel, [Span(0, 2 * HUGE)])) == [NodeRange(0, 2 * HUGE, 0, 2 * HUGE)]


def test_runs_of_nodes_follow_each_other_by_address() -> None:
    kernel = Kernel({page * PAGE: int(page < 512) for page in range(3 * HUGE // PAGE)}, set())
    assert list(where(kernel, [Span(0, 3 * HUGE)])) == [
        NodeRange(0, HUGE, 1, HUGE),
        NodeRange(HUGE, 3 * HUGE, 0, 2 * HUGE),
    ]


def test_a_process_that_ended_is_gone(guest: int) -> None:
    with pytest.raises(ProcessGone):
        PageMover(KernelRoot(), f"{guest}:1")
    with pytest.raises(ProcessGone):
        PageMover(KernelRoot(), "4194304:1")


def test_what_became_of_ranges_is_summed() -> None:
    first, second = Moved(moved=1, there=2, absent=3), Moved(moved=10)
    second.failed[errno.ENOMEM] = 4 * MIB
    first.add(second)
    assert (first.moved, first.there, first.absent, first.full, first.no_node) == (11, 2, 3, True, False)
    assert first.why() == "4 MiB ENOMEM"


class Kernel(PageMover):
    """A kernel that gives up at the first page that it cannot move, as move_pages does, and does not say which."""

    def __init__(self, pages: dict[int, int], stuck: set[int]) -> None:
        self.pages, self.stuck, self.calls = pages, stuck, 0
        self._page = PAGE

    def _check(self) -> None:
        return

    def _call(self, pages: array[int], node: int | None, status: array[int]) -> tuple[int, int]:
        if node is None:
            for place, page in enumerate(pages):
                status[place] = self.pages.get(page, -errno.ENOENT)
            return 0, 0
        self.calls += 1
        left = 0
        for page in pages:
            if page in self.stuck:
                left += 1
            elif page in self.pages:
                self.pages[page] = node
        if left:
            return 0, left
        for place in range(len(pages)):
            status[place] = node
        return 0, 0


@given(st.sets(st.integers(0, 1023), max_size=60), st.sets(st.integers(0, 1023), max_size=4))
def test_pages_that_cannot_be_moved_keep_no_others_back(present: set[int], stuck: set[int]) -> None:
    kernel = Kernel({page * PAGE: 0 for page in present}, {page * PAGE for page in stuck})
    done = kernel.move(0, 1024 * PAGE, 1)
    held = present & stuck
    assert done.moved == PAGE * len(present - stuck)
    assert done.failed == ({errno.EAGAIN: PAGE * len(held)} if held else {})
    assert done.absent == PAGE * (1024 - len(present))
    assert kernel.calls <= 2 * 64
