"""khugepaged is held back while levers take memory in pieces, where memhint may, and put back afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.conf.load import load
from memhint.kernel.root import KernelRoot
from memhint.kernel.thp import ThpKnob, read_setting, read_thp, write_setting
from memhint.levers.khugepaged import KNOB, KhugepagedLever, build
from memhint.levers.lever import PassResult
from memhint.objects.host import HostObservation, NumaNode
from memhint.objects.huge_host import HugeHost
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST
from memhint.objects.units import GIB
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.agent.views import asking
from tests.unit.kernel.fake_root import FakeRoot

FILE = "sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none"
DEFRAG = "sys/kernel/mm/transparent_hugepage/defrag"
SLEEP = "sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"
SOME, NONE = HugeHost((LeverName.DEDUP, LeverName.RECYCLER)), HugeHost()


class Host:
    """One host with khugepaged."""

    def __init__(self, path: Path, value: int = 511) -> None:
        self.root = FakeRoot(path).host()
        self.root.write(FILE, f"{value}\n")
        self.root.write(SLEEP, "10000\n")
        self.word("madvise")
        self.ledger = MemoryLedger()
        self.lever = self.make()

    def make(self, *, own: bool = True, boot: str = "boot-1", most: int = 64) -> KhugepagedLever:
        return KhugepagedLever(self.root.kernel, self.ledger, boot, lambda: 1.0, own=own, most=most)

    def pull(self, plan: HugeHost, *, dry_run: bool = False) -> Verdict:
        host = builders.host_observation(thp=read_thp(self.root.kernel))
        return self.lever.reconcile(plan, [], host, dry_run=dry_run).host

    @property
    def value(self) -> int:
        return int(self.read(ThpKnob.MAX_PTES_NONE))

    def read(self, setting: ThpKnob) -> str:
        return read_setting(self.root.kernel, setting)

    def word(self, chosen: str) -> None:
        """Another tool's choice, or the kernel's own."""
        words = ("always", "defer", "defer+madvise", "madvise", "never")
        self.root.write(DEFRAG, " ".join(f"[{word}]" if word == chosen else word for word in words) + "\n")

    def set(self, value: int) -> None:
        write_setting(self.root.kernel, ThpKnob.MAX_PTES_NONE, str(value))


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


class Killed(BaseException):
    """The agent ends here."""


def killed_over_its_write(patch: pytest.MonkeyPatch, *, done: bool) -> None:
    """The next write to the kernel is the agent's last deed, whether it is done or not."""
    write = KernelRoot.write_text

    def killed(root: KernelRoot, relative: str, text: str) -> None:
        if done:
            write(root, relative, text)
        raise Killed

    patch.setattr(KernelRoot, "write_text", killed)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("wished", [NONE, SOME])
@pytest.mark.parametrize("back", [False, True])
def test_a_successor_goes_on_from_what_an_agent_was_killed_over(
    host: Host, monkeypatch: pytest.MonkeyPatch, done: bool, wished: HugeHost, back: bool
) -> None:
    """Its first value, or putting that back."""
    if back:
        host.pull(SOME)
    with monkeypatch.context() as patch:
        killed_over_its_write(patch, done=done)
        with pytest.raises(Killed):
            host.pull(NONE if back else SOME)
    assert host.value == (511 if done == back else 64)
    host.lever = host.make()
    assert host.pull(wished).ok
    assert host.value == (511 if wished is NONE else 64)
    host.pull(NONE)
    assert (host.value, host.ledger.all()) == (511, ())


@pytest.mark.parametrize("seen", [False, True])
def test_what_somebody_set_back_stays_after_a_reload_too(host: Host, seen: bool) -> None:
    """Whether the agent before it has seen that or not."""
    host.pull(SOME)
    host.set(511)
    if seen:
        assert host.pull(SOME).answer is Answer.CONFLICT
    host.lever = host.make()
    assert host.pull(SOME).answer is Answer.CONFLICT
    host.pull(NONE)
    assert (host.value, host.ledger.all()) == (511, ())


def test_what_somebody_set_back_stays_where_the_one_that_was_killed_over_the_write_has_a_successor(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        killed_over_its_write(patch, done=True)
        with pytest.raises(Killed):
            host.pull(SOME)
    host.lever = host.make()
    kept = host.ledger.all()
    assert host.pull(SOME, dry_run=True) == Verdict(Answer.UNCHANGED)
    assert host.ledger.all() == kept
    assert host.pull(SOME) == Verdict(Answer.UNCHANGED)
    host.set(511)
    assert host.pull(SOME).answer is Answer.CONFLICT
    host.lever = host.make()
    assert host.pull(SOME).answer is Answer.CONFLICT


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("wished", [NONE, SOME])
def test_a_second_value_that_an_agent_was_killed_over_is_memhint_s_as_the_first_is(
    host: Host, monkeypatch: pytest.MonkeyPatch, done: bool, wished: HugeHost
) -> None:
    host.pull(SOME)
    host.lever = host.make(most=8)
    with monkeypatch.context() as patch:
        killed_over_its_write(patch, done=done)
        with pytest.raises(Killed):
            host.pull(SOME)
    assert host.value == (8 if done else 64)
    host.lever = host.make(most=0)
    assert host.pull(wished).answer is Answer.APPLIED
    host.pull(NONE)
    assert (host.value, host.ledger.all()) == (511, ())


def test_once_the_second_value_stands_there_the_first_is_somebody_else_s(host: Host) -> None:
    host.pull(SOME)
    host.lever = host.make(most=8)
    host.pull(SOME)
    host.set(64)
    assert host.pull(SOME).answer is Answer.CONFLICT
    host.pull(NONE)
    assert (host.value, host.ledger.all()) == (64, ())


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
    def state(plan: HugeHost, outcome: Verdict) -> LeverState:
        seen = builders.host_observation(thp=read_thp(host.root.kernel))
        return next(iter(host.lever.states([], seen, plan, {}, PassResult({}, outcome))))

    assert (state(NONE, Verdict(Answer.UNCHANGED)).desired, state(NONE, Verdict(Answer.UNCHANGED)).observed) == (
        "off",
        Observed.OFF,
    )
    done = state(SOME, host.pull(SOME))
    assert (done.subject, done.desired, done.observed) == (HOST, "on", Observed.ON)


def test_a_value_that_was_put_back_by_somebody_else_is_not_fought_over(host: Host) -> None:
    host.pull(SOME)
    host.set(511)  # as tuned does each time it applies its profile
    assert host.pull(SOME).answer is Answer.CONFLICT
    assert host.value == 511
    assert host.pull(NONE).answer is Answer.UNCHANGED
    assert (host.value, host.ledger.all()) == (511, ())


def test_the_pace_of_khugepaged_is_quickened_and_put_back(host: Host) -> None:
    quick = HugeHost(scan_sleep=1000)
    assert host.pull(quick).answer is Answer.APPLIED
    assert host.read(ThpKnob.SCAN_SLEEP) == "1000"
    assert host.pull(quick).answer is Answer.UNCHANGED
    assert host.pull(NONE).detail == "scan_sleep_millisecs=10000 again"
    assert (host.read(ThpKnob.SCAN_SLEEP), host.ledger.all()) == ("10000", ())
    write_setting(host.root.kernel, ThpKnob.SCAN_SLEEP, "50")
    assert host.pull(quick).answer is Answer.UNCHANGED  # somebody has it quicker
    assert host.ledger.all() == ()


class Sysfs(KernelRoot):
    """The kernel keeps the chosen word of `defrag` in brackets, whatever was written."""

    def write_text(self, relative: str, text: str) -> None:
        super().write_text(relative, text if relative != DEFRAG else f"[{text.strip()}] \n")


def defrag(path: Path, word: str, *, own: bool = True) -> tuple[Host, Callable[[HugeHost], Verdict]]:
    host = Host(path)
    host.word(word)
    kernel = Sysfs(path)
    lever = KhugepagedLever(kernel, host.ledger, "boot-1", lambda: 1.0, own=own, most=64)

    def pull(plan: HugeHost) -> Verdict:
        return lever.reconcile(plan, [], builders.host_observation(thp=read_thp(kernel)), dry_run=False).host

    return host, pull


NO_WAITING = HugeHost(defrag="defer")


@pytest.mark.parametrize("word", ["always", "madvise", "defer+madvise"])
def test_nobody_waits_for_huge_pages_and_the_word_is_put_back(tmp_path: Path, word: str) -> None:
    host, pull = defrag(tmp_path, word)
    assert pull(NO_WAITING).detail == f"defrag=defer, it was {word}"
    assert pull(NO_WAITING).answer is Answer.UNCHANGED
    assert pull(NONE).detail == f"defrag={word} again"
    assert (host.read(ThpKnob.DEFRAG), host.ledger.all()) == (word, ())


@pytest.mark.parametrize("word", ["defer", "never"])
def test_where_nobody_waits_anyway_the_word_is_left_alone(tmp_path: Path, word: str) -> None:
    host, pull = defrag(tmp_path, word)
    assert pull(NO_WAITING) == Verdict(Answer.UNCHANGED)
    assert host.ledger.all() == ()


@pytest.mark.parametrize("word", ["always", "madvise"])
def test_a_word_that_somebody_chose_since_stays(tmp_path: Path, word: str) -> None:
    host, pull = defrag(tmp_path, "madvise")
    pull(NO_WAITING)
    host.word(word)
    verdict = pull(NO_WAITING)
    assert (verdict.answer, verdict.reason) == (Answer.CONFLICT, Reason.OTHER_MANAGER)
    assert pull(NONE).answer is Answer.UNCHANGED
    assert (host.read(ThpKnob.DEFRAG), host.ledger.all()) == (word, ())


def test_without_leave_the_word_is_only_named(tmp_path: Path) -> None:
    host, pull = defrag(tmp_path, "madvise", own=False)
    verdict = pull(NO_WAITING)
    assert (verdict.answer, verdict.reason) == (Answer.UNCHANGED, Reason.OPT_OUT)
    assert "defrag=madvise" in verdict.detail
    assert host.read(ThpKnob.DEFRAG) == "madvise"


def test_one_setting_in_dispute_keeps_no_other_from_being_set(host: Host) -> None:
    both = HugeHost((LeverName.RECYCLER,), scan_sleep=1000)
    host.pull(SOME)
    host.set(300)
    verdict = host.pull(both)
    assert verdict.answer is Answer.CONFLICT
    assert "scan_sleep_millisecs=1000" in verdict.detail
    assert host.read(ThpKnob.SCAN_SLEEP) == "1000"


def test_a_kernel_without_huge_pages_is_left_alone_and_says_so(host: Host) -> None:
    nothing = builders.host_observation(thp=None)
    for plan in (SOME, HugeHost(scan_sleep=1000), NO_WAITING):
        assert host.lever.reconcile(plan, [], nothing, dry_run=False).host == Verdict(Answer.UNCHANGED)
    assert host.ledger.all() == ()
    (state,) = host.lever.states([], nothing, SOME, {}, PassResult({}, Verdict(Answer.UNCHANGED)))
    assert state.observed is Observed.UNSUPPORTED


@pytest.mark.parametrize(
    ("ratio", "nodes", "word"), [(1.2, 2, "defer"), (1.2, 1, None), (1.0, 2, None), (0.9, 2, None), (0.0, 2, None)]
)
def test_near_small_pages_are_preferred_only_where_they_were_measured_to_be_better(
    tmp_path: Path, ratio: float, nodes: int, word: str | None
) -> None:
    assert built(Host(tmp_path), ratio).plan_of(asking(), with_nodes(*[GIB] * nodes)).defrag == word


def test_a_node_that_comes_later_is_far_from_then_on(host: Host) -> None:
    lever = built(host, 1.2)
    assert lever.plan_of(asking(), with_nodes(GIB, 0)).defrag is None  # it has no memory yet
    assert lever.plan_of(asking(), with_nodes(GIB, GIB)).defrag == "defer"
    assert lever.plan_of(asking(), with_nodes()).defrag == "defer"  # not readable for a moment
    assert lever.plan_of(asking(), with_nodes(GIB)).defrag is None


def test_what_was_observed_of_the_nodes_is_not_read_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    lever = built(host, 1.2)
    monkeypatch.setattr(KernelRoot, "read_text", lambda *_: pytest.fail("a file was read"))
    monkeypatch.setattr(KernelRoot, "names", lambda *_: pytest.fail("a directory was read"))
    assert lever.plan_of(asking(), with_nodes(GIB, GIB)).defrag == "defer"


def with_nodes(*sizes: int) -> HostObservation:
    """A host with nodes of so many bytes; with none where they could not be read."""
    return builders.host_observation(numa=tuple(NumaNode(node, size, 0) for node, size in enumerate(sizes)))


def built(host: Host, ratio: float) -> KhugepagedLever:
    file = host.root.path / "memhint.conf"
    file.write_text(f"[khugepaged]\nown = true\nfar_huge_ratio = {ratio}\n")
    context: Any = SimpleNamespace(conf=load([str(file)]), root=host.root.kernel, ledger=host.ledger, boot="boot-1")
    return build(context)


def test_of_two_agents_the_one_that_came_second_changes_nothing_and_the_word_is_put_back_once(tmp_path: Path) -> None:
    host, first = defrag(tmp_path, "madvise")
    kernel, theirs = Sysfs(tmp_path), MemoryLedger()
    other = KhugepagedLever(kernel, theirs, "boot-1", lambda: 1.0, own=True, most=64)

    def second(plan: HugeHost) -> Verdict:
        return other.reconcile(plan, [], builders.host_observation(thp=read_thp(kernel)), dry_run=False).host

    first(NO_WAITING)
    assert second(NO_WAITING) == Verdict(Answer.UNCHANGED)
    assert theirs.all() == ()
    assert first(NONE).detail == "defrag=madvise again"
    assert second(NO_WAITING).answer is Answer.APPLIED  # it still wishes it
    assert first(NONE) == Verdict(Answer.UNCHANGED)
    assert second(NONE).detail == "defrag=madvise again"
    assert (host.read(ThpKnob.DEFRAG), host.ledger.all(), theirs.all()) == ("madvise", (), ())
