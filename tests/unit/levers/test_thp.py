"""The lever of huge pages: within its bounds, and with a reason where it does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from memhint.kernel.errors import InterfaceMissing, InterfaceUnreadable, ProcessGone
from memhint.kernel.huge_blocks import Block, Collapsed
from memhint.levers.thp import ThpLever, ThpSettings
from memhint.objects.domain import DomainState
from memhint.objects.lever import Observed
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.kernel import recorded
from tests.unit.kernel.fake_root import FakeRoot

HUGE = 2 * MIB
WISH = 64 * MIB


class Host:
    """One VM, and the blocks of its memory. It stands in for them, too."""

    def __init__(self, path: Path, blocks: int = 8, absent: int = 0) -> None:
        self.root = FakeRoot(path).host()
        self.blocks = [Block(number * HUGE, absent) for number in range(blocks)]
        self.answers: dict[int, Collapsed] = {}
        self.collapsed: list[int] = []
        self.fails: Exception | None = None
        self.failed_compactions = 0
        self.free = GIB
        self.now = 0.0
        self.used = 0.0
        self.slept: list[float] = []
        self.policy = effective({})
        base = builders.process(ksm_merging=0)
        self.domain = builders.domain_observation(process=base)
        self.lever = ThpLever(
            self.root.kernel,
            lambda instance: self,
            lambda: self.free,
            ThpSettings(piece=4),
            lambda: self.now,
            lambda: self.used,
            self.sleep,
        )

    def __enter__(self) -> Host:
        if self.fails is not None:
            raise self.fails
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def small(self) -> Iterator[Block]:
        return iter(self.blocks)

    def collapse(self, block: Block) -> Collapsed:
        self.used += 0.01
        self.now += 0.01
        self.free -= block.absent
        if self.failed_compactions:
            text = recorded.VMSTAT.replace("compact_fail 9", f"compact_fail {9 + self.failed_compactions}")
            self.root.write("proc/vmstat", text)
        answer = self.answers.get(block.start, Collapsed.DONE)
        if answer is Collapsed.DONE:
            self.collapsed.append(block.start)
        return answer

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def pull(self, wish: int | None = WISH, *, dry_run: bool = False, stop: bool = False) -> Verdict:
        return self.lever.pull(self.domain, self.policy, wish, dry_run=dry_run, stop=lambda: stop)

    def refused(self) -> Reason:
        verdict = self.pull()
        assert verdict.answer in (Answer.REFUSED, Answer.UNSUPPORTED), verdict
        assert verdict.detail
        assert self.collapsed == []
        return verdict.reason


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_every_block_that_lacks_a_huge_page_gets_one(host: Host) -> None:
    verdict = host.pull()
    assert verdict.answer is Answer.APPLIED
    assert "16 MiB became huge pages" in verdict.detail
    assert host.collapsed == [block.start for block in host.blocks]


def test_a_pass_ends_with_its_bytes(host: Host) -> None:
    host.pull(6 * MIB)
    assert len(host.collapsed) == 3


def test_a_pass_keeps_to_its_share_of_a_core(host: Host) -> None:
    host.pull()
    assert host.now == pytest.approx(host.used / 0.2)
    assert host.slept


def test_a_block_full_of_holes_stays_as_it_is(tmp_path: Path) -> None:
    host = Host(tmp_path, absent=65 * 4096)
    verdict = host.pull()
    assert (verdict.answer, host.collapsed) == (Answer.UNCHANGED, [])
    assert "8 too many holes" in verdict.detail


def test_holes_are_filled_only_out_of_what_the_host_can_spare(tmp_path: Path) -> None:
    host = Host(tmp_path, absent=64 * 4096)
    host.free = HUGE + 3 * 64 * 4096
    verdict = host.pull()
    assert verdict.answer is Answer.APPLIED
    assert len(host.collapsed) == 3
    assert "host's reserve" in verdict.detail
    host.collapsed.clear()
    host.free = HUGE
    assert host.refused() is Reason.HEADROOM
    host.free = -GIB
    assert host.refused() is Reason.HEADROOM


def test_a_host_that_waits_for_memory_is_left_alone(host: Host) -> None:
    host.root.write("proc/pressure/memory", recorded.PRESSURE.replace("some avg10=1.25", "some avg10=5.00"))
    assert host.refused() is Reason.PRESSURE


@pytest.mark.parametrize(
    ("by_node", "reason"),
    [({0: GIB}, None), ({0: MIB, 1: GIB}, None), ({0: 0, 1: GIB}, Reason.NO_BLOCKS), ({}, None)],
)
@pytest.mark.parametrize("cpus", [{}, {0: 2}, {1: 2}])
def test_a_huge_page_is_had_only_from_a_node_where_its_memory_lies(
    host: Host, by_node: Mapping[int, int], reason: Reason | None, cpus: Mapping[int, int]
) -> None:
    """Wherever its CPUs run: recorded.BUDDYINFO has blocks on node 0, and none on node 1."""
    assert host.domain.deep is not None
    host.domain = replace(host.domain, deep=replace(host.domain.deep, by_node=by_node, cpus_by_node=cpus))
    if reason is None:
        assert host.pull().answer is Answer.APPLIED
    else:
        assert host.refused() is reason


def test_without_any_free_block_nothing_is_tried(host: Host) -> None:
    host.root.write("proc/buddyinfo", "Node 0, zone Normal 9 9 9 9 9 9 9 9 9 0 0\n")
    assert host.refused() is Reason.NO_BLOCKS


def test_a_kernel_that_has_none_to_give_is_left_alone_for_a_minute(host: Host) -> None:
    host.answers[0] = Collapsed.NO_BLOCK
    assert host.refused() is Reason.NO_BLOCKS
    host.answers.clear()
    assert host.refused() is Reason.NO_BLOCKS
    host.now += 61
    assert host.pull().answer is Answer.APPLIED


def test_a_compaction_storm_ends_the_pass_and_the_next_ones(host: Host) -> None:
    host.failed_compactions = 4
    verdict = host.pull()
    assert (verdict.answer, len(host.collapsed)) == (Answer.APPLIED, 4)
    assert "compacts in vain" in verdict.detail
    host.collapsed.clear()
    assert host.refused() is Reason.NO_BLOCKS


def test_what_cannot_be_collapsed_is_counted_and_the_others_go_on(host: Host) -> None:
    host.answers.update({0: Collapsed.BUSY, HUGE: Collapsed.UNFIT})
    verdict = host.pull()
    assert len(host.collapsed) == 6
    assert "1 in use, 1 not movable" in verdict.detail


def test_a_vm_with_nothing_to_do_is_not_looked_at_again_for_a_while(host: Host) -> None:
    host.blocks = []
    assert host.pull().answer is Answer.UNCHANGED
    host.fails = AssertionError("looked at")
    assert host.pull().answer is Answer.UNCHANGED
    host.fails = None
    host.blocks = [Block(0, 0)]
    host.now += 61
    assert host.pull().answer is Answer.APPLIED


def test_told_to_stop_it_ends_after_a_piece(host: Host) -> None:
    host.pull(stop=True)
    assert len(host.collapsed) == 4


def test_a_dry_run_changes_nothing(host: Host) -> None:
    assert host.pull(dry_run=True).answer is Answer.PLANNED
    assert host.collapsed == []


def test_nothing_is_owed(host: Host) -> None:
    host.pull()
    assert host.lever.owned() == ()
    assert host.pull(None).answer is Answer.UNCHANGED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hugepages": True}, Reason.DEVICE),
        ({"locked": True}, Reason.DEVICE),
        ({"vfio": True}, Reason.DEVICE),
        ({"confidential": True}, Reason.DEVICE),
        ({"shared_memory": True}, Reason.DEVICE),
        ({"file_backed": True}, Reason.DEVICE),
        ({"realtime": True}, Reason.EXCLUDED),
    ],
)
def test_a_vm_whose_memory_must_stay_is_told_why(host: Host, changes: Mapping[str, bool], reason: Reason) -> None:
    host.domain = replace(host.domain, facts=replace(host.domain.facts, **changes))
    assert host.refused() is reason


def test_merged_memory_is_not_separated(host: Host) -> None:
    host.domain = replace(host.domain, process=builders.process(ksm_merging=MIB))
    assert host.refused() is Reason.IN_USE


def test_a_vm_that_does_not_run_waits(host: Host) -> None:
    host.domain = replace(host.domain, state=DomainState.PAUSED)
    assert host.pull() == Verdict(Answer.PENDING, Reason.NOT_RUNNING, "the VM is paused")


def test_an_opt_out_is_kept(host: Host) -> None:
    host.policy = effective({Origin.FLAVOR: {"thp": "off"}})
    assert host.pull().reason is Reason.OPT_OUT
    assert host.collapsed == []


def test_a_host_without_huge_pages_is_told_so(host: Host) -> None:
    host.root.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    assert host.refused() is Reason.KERNEL
    host.root.remove("sys/kernel/mm/transparent_hugepage/enabled")
    assert host.refused() is Reason.KERNEL


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (InterfaceMissing("process_madvise", "too old"), Answer.UNSUPPORTED),
        (ProcessGone("proc/1", "ended"), Answer.PENDING),
        (InterfaceUnreadable("proc/1", "not permitted"), Answer.FAILED),
    ],
)
def test_what_the_kernel_says_is_typed(host: Host, error: Exception, answer: Answer) -> None:
    host.fails = error
    assert host.pull().answer is answer


def test_it_is_seen_as_it_is(host: Host) -> None:
    def seen(anon_huge: int | None) -> Observed:
        assert host.domain.deep is not None
        deep = None if anon_huge is None else replace(host.domain.deep, anon_huge=anon_huge)
        return host.lever.state(replace(host.domain, deep=deep), host.policy, None, None).observed

    assert (seen(None), seen(0), seen(MIB)) == (Observed.UNKNOWN, Observed.OFF, Observed.ON)


def test_a_vm_that_was_started_with_small_pages_only_is_told_so(host: Host) -> None:
    assert host.domain.deep is not None
    host.domain = replace(
        host.domain,
        process=builders.process(ksm_merging=0, small_pages=True),
        deep=replace(host.domain.deep, anon_huge=0),
    )
    assert host.refused() is Reason.DEVICE
    for deep in (host.domain.deep, None):
        state = host.lever.state(replace(host.domain, deep=deep), host.policy, None, None)
        assert (state.observed, state.verdict.answer) == (Observed.OFF, Answer.UNSUPPORTED)
        assert "small pages only" in state.verdict.detail
    assert host.lever.shown(host.domain)


def test_a_kernel_without_huge_pages_says_it_of_all_and_means_itself(host: Host) -> None:
    host.root.remove("sys/kernel/mm/transparent_hugepage/enabled")
    host.domain = replace(host.domain, process=builders.process(ksm_merging=0, small_pages=True))
    assert host.refused() is Reason.KERNEL
    assert host.lever.state(host.domain, host.policy, None, None).verdict.reason is Reason.KERNEL
    assert not host.lever.shown(host.domain)
