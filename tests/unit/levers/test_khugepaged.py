"""khugepaged is held back while levers take memory in pieces, where memhint may, and put back afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from memhint.kernel.thp import read_max_ptes_none, read_thp, write_max_ptes_none
from memhint.levers.khugepaged import KNOB, KhugepagedLever
from memhint.levers.lever import Outcome
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST, Mark
from memhint.objects.pieces import Pieces
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.kernel.fake_root import FakeRoot
from tests.unit.levers.fakes import FakeLedger

FILE = "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"
SOME, NONE = Pieces((LeverName.DEDUP, LeverName.RECYCLER)), Pieces()


class Host:
    """One host with khugepaged."""

    def __init__(self, path: Path, value: int = 511) -> None:
        self.root = FakeRoot(path).host()
        self.root.write(FILE, f"{value}\n")
        self.ledger = FakeLedger()
        self.lever = self.make()

    def make(self, *, own: bool = True, boot: str = "boot-1") -> KhugepagedLever:
        return KhugepagedLever(self.root.kernel, self.ledger, boot, lambda: 1.0, own=own, most=64)

    def pull(self, plan: Pieces, *, dry_run: bool = False) -> Verdict:
        host = builders.host_observation(thp=read_thp(self.root.kernel))
        return self.lever.reconcile(plan, [], host, dry_run=dry_run).host

    @property
    def value(self) -> int:
        return read_max_ptes_none(self.root.kernel)

    def set(self, value: int) -> None:
        write_max_ptes_none(self.root.kernel, value)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_it_is_held_back_while_something_takes_pieces_and_put_back(host: Host) -> None:
    assert host.pull(NONE).answer is Answer.UNCHANGED
    assert host.pull(SOME).answer is Answer.APPLIED
    assert (host.value, host.ledger.get(HOST, KNOB).before) == (64, "511")
    assert host.pull(SOME).answer is Answer.UNCHANGED
    assert host.pull(NONE).answer is Answer.APPLIED
    assert (host.value, host.ledger.all()) == (511, ())


def test_without_leave_it_is_only_said(host: Host) -> None:
    host.lever = host.make(own=False)
    verdict = host.pull(SOME)
    assert (verdict.answer, verdict.reason) == (Answer.UNCHANGED, Reason.OPT_OUT)
    assert "511 of 512" in verdict.detail
    assert "dedup, recycler" in verdict.detail
    assert (host.value, host.ledger.all()) == (511, ())


def test_a_leave_that_was_withdrawn_leaves_nothing_behind(host: Host) -> None:
    host.pull(SOME)
    host.lever = host.make(own=False)
    assert host.pull(SOME).answer is Answer.APPLIED
    assert (host.value, host.ledger.all()) == (511, ())


def test_what_is_small_enough_is_left_alone(tmp_path: Path) -> None:
    host = Host(tmp_path, 0)
    assert host.pull(SOME) == Verdict(Answer.UNCHANGED)
    assert (host.value, host.ledger.all()) == (0, ())


def test_somebody_else_s_value_is_a_conflict_and_is_not_undone(host: Host) -> None:
    host.pull(SOME)
    host.set(300)
    assert host.pull(SOME).answer is Answer.CONFLICT
    assert host.lever.undo([], builders.host_observation()).answer is Answer.UNCHANGED
    assert (host.value, host.ledger.all()) == (300, ())


def test_a_successor_goes_on_from_a_mark_without_its_deed(host: Host) -> None:
    host.ledger.put(Mark(HOST, KNOB, "511", "64", "boot-1", 1.0))
    assert host.pull(SOME).answer is Answer.APPLIED
    assert host.pull(NONE).answer is Answer.APPLIED
    assert host.value == 511


def test_another_boot_began_with_the_kernel_s_own(host: Host) -> None:
    host.pull(SOME)
    host.set(511)
    host.lever = host.make(boot="boot-2")
    assert host.pull(NONE).answer is Answer.UNCHANGED
    assert (host.value, host.ledger.all()) == (511, ())


def test_a_dry_run_changes_nothing(host: Host) -> None:
    assert host.pull(SOME, dry_run=True).answer is Answer.PLANNED
    assert (host.value, host.ledger.all()) == (511, ())
    host.pull(SOME)
    assert host.pull(NONE, dry_run=True).answer is Answer.PLANNED
    assert host.value == 64


def test_a_host_that_never_makes_huge_pages_needs_nothing(host: Host) -> None:
    host.root.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
    assert host.pull(SOME).answer is Answer.UNCHANGED
    assert host.value == 511


def test_a_kernel_that_refuses_is_a_failure_with_the_mark_kept(host: Host) -> None:
    host.pull(SOME)
    host.root.write(FILE, "many\n")
    assert host.lever.undo([], builders.host_observation()).answer is Answer.FAILED
    assert host.ledger.get(HOST, KNOB) is not None


def test_the_host_s_state_is_shown(host: Host) -> None:
    def state(plan: Pieces, outcome: Verdict) -> LeverState:
        seen = builders.host_observation(thp=read_thp(host.root.kernel))
        return next(iter(host.lever.states([], seen, plan, {}, Outcome({}, outcome))))

    assert (state(NONE, Verdict(Answer.UNCHANGED)).desired, state(NONE, Verdict(Answer.UNCHANGED)).observed) == (
        "off",
        Observed.OFF,
    )
    done = state(SOME, host.pull(SOME))
    assert (done.subject, done.desired, done.observed) == (HOST, "on", Observed.ON)
