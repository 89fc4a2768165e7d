"""Of whom huge pages are split that are held in part, when, and how far one pass goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from memhint.agent.runners import split
from memhint.agent.runners.runner import RunnerContext
from memhint.agent.runners.split import AT_ONCE, LONGEST, SETTLE, SplitRunner
from memhint.conf.load import load
from memhint.kernel.clearings import Clearings
from memhint.kernel.errors import ProcessGone
from memhint.kernel.huge_blocks import Block
from memhint.objects.host import Thp
from memhint.objects.policy import effective
from memhint.objects.tuning import Tuning
from memhint.objects.units import MIB
from tests.unit import builders
from tests.unit.agent.views import asking, view_of

HUGE = 2 * MIB


class Host:
    """VMs of which some blocks are held in part."""

    def __init__(self, blocks: int = 2, *, enabled: bool = True) -> None:
        self.now = 100.0
        self.blocks = [Block(number * HUGE, number % 2 * HUGE // 2) for number in range(2 * blocks)]
        self.split_of: list[tuple[str, int]] = []
        self.gone = False
        self.domains = [
            builders.domain_observation(uuid=name, process=builders.process(pid=pid))
            for pid, name in ((11, "recycled"), (12, "finer"), (13, "coarse"))
        ]
        self.idle = frozenset(one.process.instance for one in self.domains)
        self.wishes = {"recycler": {"recycled": 1}, "tuning": {"finer": Tuning(order=4), "coarse": Tuning(order=9)}}
        self.thp: Thp | None = builders.host_observation().thp
        self.clearings = Clearings()
        self.runner = SplitRunner(self.opened, self.clearings, enabled=enabled, clock=lambda: self.now)

    @contextmanager
    def opened(self, instance: str) -> Iterator[Host]:
        if self.gone:
            raise ProcessGone("proc/11", "the process ended")
        self.instance = instance
        yield self

    def small(self) -> Iterator[Block]:
        yield from self.blocks

    def split(self, block: Block) -> None:
        self.split_of.append((self.instance.partition(":")[0], block.start))

    def after(self, seconds: float) -> list[tuple[str, int]]:
        """What a cycle so much later has had split."""
        self.now += seconds
        self.split_of = []
        policies = {one.uuid: effective({}) for one in self.domains}
        view = view_of(self.domains, policies, host=builders.host_observation(thp=self.thp))
        planned = asking(**self.wishes)
        self.runner.pull(view, replace(planned, state=replace(planned.state, idle=self.idle)))
        assert self.runner.settle(20.0)
        return self.split_of


def test_what_is_held_in_part_of_vms_that_rest_and_give_pieces_is_split_and_ever_seldomer() -> None:
    host = Host()
    both = [(pid, start) for pid in ("11", "12") for start in (HUGE, 3 * HUGE)]
    assert host.after(0) == []  # most of what they give back is still to come
    assert host.after(SETTLE) == both  # and nothing of one that gives huge pages whole, nor of blocks without a hole
    assert host.after(SETTLE) == []
    assert host.after(SETTLE) == both
    assert host.after(2 * SETTLE) == []
    assert host.after(2 * SETTLE) == both
    for _ in range(20):
        host.after(LONGEST)
    assert host.after(LONGEST - 1) == []
    assert host.after(1) == both


def test_one_that_was_busy_is_looked_at_anew_and_one_from_which_nothing_is_taken_never() -> None:
    host = Host()
    host.wishes = {"recycler": {"recycled": 1}}
    host.after(0)
    assert len(host.after(SETTLE)) == 2
    idle, host.idle = host.idle, frozenset()
    assert host.after(10 * SETTLE) == []
    host.idle = idle
    assert host.after(1) == []
    assert len(host.after(SETTLE)) == 2
    host.wishes = {}
    assert host.after(100 * SETTLE) == []


def test_a_pass_ends_after_so_many_blocks_and_the_next_goes_on_behind_them() -> None:
    host = Host(AT_ONCE + 3)
    host.wishes = {"recycler": {"recycled": 1}}
    host.after(0)
    first, second = host.after(SETTLE), host.after(SETTLE)
    assert (len(first), len(second)) == (AT_ONCE, 3)
    assert first[-1] < second[0]
    assert host.after(SETTLE) == []
    assert host.after(SETTLE)[0] == first[0]


def test_a_process_that_ends_is_let_go_and_tried_again_later() -> None:
    host = Host()
    host.after(0)
    host.gone = True
    assert host.after(SETTLE) == []
    host.gone = False
    assert host.after(SETTLE) == []
    assert host.after(SETTLE) != []


def test_whoever_reads_accessed_bits_is_told_that_a_split_cleared_some() -> None:
    host = Host()
    host.after(0)
    assert host.clearings.last(11) < 0
    host.after(SETTLE)
    assert host.clearings.last(11) == host.clearings.last(12) == host.now
    assert host.clearings.last(13) < 0


@pytest.mark.parametrize("thp", [None, Thp("never", "madvise", 511)])
def test_nothing_is_split_where_there_are_no_huge_pages(thp: Thp | None) -> None:
    host = Host()
    host.thp = thp
    host.after(0)
    assert host.after(SETTLE) == []


def test_a_dry_run_and_a_runner_that_is_closed_split_nothing() -> None:
    host = Host(enabled=False)
    host.after(0)
    assert host.after(SETTLE) == []
    host = Host()
    host.after(0)
    host.runner.close()
    assert host.after(SETTLE) == []


@pytest.mark.parametrize("allowed", [True, False])
def test_an_operator_may_leave_them_whole(allowed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text(f"[DEFAULT]\nhost_name = host-a\n[ladder]\nsplit_partly_free = {allowed}\n")
    host = Host()
    monkeypatch.setattr(split, "GuestBlocks", lambda _, instance: host.opened(instance))
    context = SimpleNamespace(conf=load([str(file)]), root=None, dry_run=False, clearings=host.clearings)
    host.runner = split.build(cast("RunnerContext", context))
    monkeypatch.setattr(host.runner, "_clock", lambda: host.now)
    host.after(0)
    assert bool(host.after(SETTLE)) == allowed
