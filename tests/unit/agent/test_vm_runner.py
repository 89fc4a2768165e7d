"""The runner against a toy lever: arbitrary schedules of wishes, failures, VMs that are gone, restarts and undo.

Each change is told once in the log of events, and in the end nothing is held.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from lab.waiting import wait_for
from memhint.agent.applied import Applied
from memhint.agent.news import News
from memhint.agent.runners.vm import VmRunner
from memhint.agent.view import HostSnapshot
from memhint.levers.lever import Stop, VmLever
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import Mark
from memhint.objects.policy import Policy
from memhint.objects.report import Report
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.errors import StoreError
from tests.unit import builders
from tests.unit.agent.views import asking, view_of

VMS = ("uuid-a", "uuid-b", "uuid-c")
PATIENCE = 30.0


class Toy(VmLever):
    """A lever that holds a number of bytes of each VM. What it holds is written down, as marks are."""

    name = LeverName.BALLOON

    def __init__(self) -> None:
        self.held: dict[str, int] = {}
        self.failing: set[str] = set()
        self.waiting: set[str] = set()
        self.broken = self.away = False
        self.lingers = False  # who gives, gives until it is told to stop
        self.inside = 0
        self.most_inside = 0
        self.pulls = 0
        self.changes: list[tuple[str, str]] = []
        self.known: list[str] = []
        self.go = threading.Event()
        self.go.set()

    def knows(self, domains: Sequence[DomainObservation]) -> None:
        self.known = [one.uuid for one in domains]

    def state(self, domain: DomainObservation, policy: Policy, wish: int | None, verdict: Verdict | None) -> LeverState:
        seen = Observed.ON if domain.uuid in self.held else Observed.OFF
        return LeverState(self.name, domain.uuid, str(wish), seen, verdict or Verdict(Answer.UNCHANGED))

    def pull(
        self, domain: DomainObservation, policy: Policy, wish: int | None, *, dry_run: bool, stop: Stop
    ) -> Verdict:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.pulls += 1
        self.go.wait(PATIENCE)
        if self.lingers and wish is not None:
            wait_for(stop, PATIENCE, "the pull to be told to stop", interval=0.001)
        try:
            if self.broken:
                raise RuntimeError("a defect")
            if domain.uuid in self.failing:
                return Verdict(Answer.FAILED, Reason.HYPERVISOR, "it does not answer")
            if domain.uuid in self.waiting:
                return Verdict(Answer.PENDING, Reason.NOT_RUNNING)
            if self.held.get(domain.uuid) == wish:
                return Verdict(Answer.UNCHANGED)
            if wish is None:
                self.held.pop(domain.uuid, None)
            else:
                self.held[domain.uuid] = wish
            self.changes.append((domain.uuid, str(wish)))
            return Verdict(Answer.APPLIED)
        finally:
            self.inside -= 1

    def owned(self) -> Collection[str]:
        if self.away:
            raise StoreError("away")
        return tuple(self.held)


def vm(uuid: str, instance: str = "1") -> DomainObservation:
    base = builders.domain_observation()
    return replace(base, uuid=uuid, process=builders.process(pid=int(instance)))


POLICIES = {uuid: builders.policy() for uuid in VMS}
CALM = asking()


def unlisted(view: HostSnapshot) -> HostSnapshot:
    """The same before libvirt has said which VMs there are."""
    return replace(view, seen=replace(view.seen, domains=(), listed=False))


def runner_of(lever: VmLever, noted: list[LeverState] | None = None) -> VmRunner:
    return VmRunner(lever, note=(noted if noted is not None else []).append)


def states(runner: VmRunner, domain: DomainObservation) -> tuple[LeverState, ...]:
    return tuple(runner.states(view_of([domain], POLICIES), CALM))


class EventLog:
    """Where changes are told, of an agent of which only reports are looked at. See `Publisher` and `Audit`."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []

    def publish(self, report: Report) -> None:
        pass

    def record(self, host: str, at: float, states: Sequence[LeverState]) -> None:
        self.changes += [(one.subject, one.desired) for one in states if one.verdict.answer is Answer.APPLIED]

    queue = record


class Schedules(RuleBasedStateMachine):
    """What a host goes through."""

    def __init__(self) -> None:
        super().__init__()
        self.toy = Toy()
        self.lever: VmLever = self.toy
        self.noted: list[LeverState] = []
        self.applied = Applied()
        self.log = EventLog()
        self.news = News(self.log, self.log)
        self.runner = self._new()
        self.there = {uuid: 1 for uuid in VMS}

    def _new(self) -> VmRunner:
        return VmRunner(self.lever, note=self._note)

    def _note(self, state: LeverState) -> None:
        self.noted.append(state)
        self.applied.note(state)

    def _report(self) -> None:
        """As a cycle ends, whatever is under way."""
        states = tuple(self.runner.states(self._view(), CALM))
        self.news.tell(builders.report(domains=(), levers=states), self.applied.take())

    def _view(self, **changes: Any) -> HostSnapshot:
        return view_of([vm(uuid, str(instance)) for uuid, instance in self.there.items()], POLICIES, **changes)

    @rule(wishes=st.dictionaries(st.sampled_from(VMS), st.integers(1, 3)), waits=st.booleans())
    def cycle(self, wishes: dict[str, int], waits: bool) -> None:
        self.runner.pull(self._view(), asking(balloon=wishes))
        if waits:
            assert self.runner.settle(PATIENCE)
        self._report()

    @rule(uuid=st.sampled_from(VMS))
    def of_one_nothing_is_known(self, uuid: str) -> None:
        """Nothing is done to it, whatever it holds."""
        assert self.runner.settle(PATIENCE)
        before = self.toy.held.get(uuid)
        self.runner.pull(self._view(unread=frozenset({uuid})), asking(balloon={uuid: 7}))
        assert self.runner.settle(PATIENCE)
        assert self.toy.held.get(uuid) == before

    @rule()
    def nobody_lists_the_vms(self) -> None:
        """Nothing is taken, and nothing given back."""
        assert self.runner.settle(PATIENCE)
        before, pulls = dict(self.toy.held), self.toy.pulls
        self.runner.pull(unlisted(self._view()), CALM)
        assert self.runner.settle(PATIENCE)
        assert (self.toy.held, self.toy.pulls) == (before, pulls)

    @rule(uuid=st.sampled_from(VMS))
    def fails(self, uuid: str) -> None:
        self.toy.failing ^= {uuid}

    @rule(broken=st.booleans(), away=st.booleans())
    def breaks(self, broken: bool, away: bool) -> None:
        self.toy.broken, self.toy.away = broken, away

    @rule(uuid=st.sampled_from(VMS))
    def goes_or_comes(self, uuid: str) -> None:
        if uuid in self.there:
            del self.there[uuid]
        else:
            self.there[uuid] = 1

    @rule(uuid=st.sampled_from(VMS))
    def starts_again(self, uuid: str) -> None:
        if uuid in self.there:
            self.there[uuid] += 1

    @rule()
    def slow(self) -> None:
        """A pull takes long while cycles go on: none begins a second pass."""
        self.toy.go.clear()
        try:
            for _ in range(3):
                self.runner.pull(self._view(), asking(balloon={VMS[0]: 2}))
                self._report()
        finally:
            self.toy.go.set()

    @rule()
    def restart(self) -> None:
        """Of the process: nothing is remembered but what is written down."""
        self.runner.close()
        assert self.runner.settle(PATIENCE)
        self._report()
        self.runner, self.news = self._new(), News(self.log, self.log)

    @rule()
    def reload(self) -> None:
        """Of the configuration, while a pass may be under way: no second one runs beside it."""
        before, self.runner = self.runner, self._new()
        before.close()
        self.runner.inherit(before)

    @invariant()
    def one_at_a_time(self) -> None:
        assert self.toy.most_inside <= 1

    def teardown(self) -> None:
        """Undone within a pull: every pull was told once, nothing is held of a VM that is there, and it says so."""
        self.toy.failing, self.toy.broken, self.toy.away = set(), False, False
        self.toy.lingers = True
        self.runner.pull(self._view(), asking(balloon=dict.fromkeys(VMS, 9)))
        assert self.runner.undo(self._view(), 2 * PATIENCE) == []
        assert not self.toy.held.keys() & self.there.keys()
        assert len(self.noted) == self.toy.pulls
        self._report()
        assert sorted(self.log.changes) == sorted(self.toy.changes)
        for state in self.runner.states(self._view(), CALM):
            assert (state.observed, state.verdict.ok) == (Observed.OFF, True)


TestSchedules = pytest.mark.filterwarnings("ignore")(Schedules.TestCase)
TestSchedules.settings = settings(max_examples=1_000, stateful_step_count=20, deadline=None)  # type: ignore[attr-defined]


def test_what_was_pulled_of_another_process_says_nothing_of_this_one() -> None:
    toy = Toy()
    runner = runner_of(toy)
    runner.pull(view_of([vm(VMS[0])], POLICIES), asking(balloon={VMS[0]: 2}))
    assert runner.settle(PATIENCE)
    (state,) = states(runner, vm(VMS[0]))
    assert (state.desired, state.verdict.answer) == ("2", Answer.APPLIED)
    assert states(runner, vm(VMS[0], "2")) == ()


def test_of_a_vm_that_nobody_asked_for_the_lever_says_whether_it_is_shown() -> None:
    toy = Toy()
    toy.shown = lambda domain: domain.uuid == VMS[1]  # type: ignore[method-assign]
    found = runner_of(toy).states(view_of([vm(one) for one in VMS], POLICIES), CALM)
    assert [one.subject for one in found] == [VMS[1]]


def test_the_lever_knows_all_vms_of_the_host_also_those_to_which_nothing_may_be_done() -> None:
    toy = Toy()
    runner, view = runner_of(toy), view_of([vm(one) for one in VMS], POLICIES, unread=frozenset({VMS[1]}))
    runner.pull(view, CALM)
    assert toy.known == list(VMS)
    runner.pull(unlisted(view), CALM)
    assert toy.known == list(VMS)
    assert runner.settle(PATIENCE)


def test_nothing_is_begun_where_nothing_is_to_be_done() -> None:
    toy = Toy()
    runner = runner_of(toy)
    looks: list[int] = []
    toy.owned = lambda: (looks.append(1), tuple(toy.held))[1]  # type: ignore[method-assign]
    view = view_of([vm(VMS[0])], POLICIES)

    def cycle(**wishes: Any) -> int:
        before = len(looks)
        runner.pull(view, asking(**wishes))
        assert runner.settle(PATIENCE)
        return len(looks) - before

    assert cycle() == 1  # the first looks whether something is left of an earlier agent
    assert cycle() == 0
    assert cycle(balloon={VMS[0]: 1}) == 1
    assert cycle() == 1
    assert toy.held == {}


def test_what_a_vm_brought_is_given_back_though_the_store_took_it_up_late() -> None:
    """A pass in between found nothing, and so there would be none again."""
    lever = Toy()
    lever.travels = ("toy",)
    runner, domain = runner_of(lever), vm(VMS[0])
    view = view_of([domain], POLICIES)
    runner.pull(view, CALM)
    assert runner.settle(PATIENCE)
    lever.held[domain.uuid] = 1
    for knob, left in (("another", {domain.uuid: 1}), ("toy", {})):
        marks = {domain.uuid: (Mark(domain.uuid, knob, "2", "1", "1", 1.0),)}
        runner.pull(replace(view, seen=replace(view.seen, marks=marks)), CALM)
        assert runner.settle(PATIENCE)
        assert lever.held == left


def test_what_a_vm_brought_is_given_back_though_it_was_there_before_it_ran() -> None:
    lever = Toy()
    runner = runner_of(lever)
    arriving = replace(vm("uuid-a"), state=DomainState.INCOMING)
    runner.pull(view_of([arriving], POLICIES), CALM)
    assert runner.settle(PATIENCE)
    lever.held = {"uuid-a": 5}  # taken up as it runs
    runner.pull(view_of([vm("uuid-a")], POLICIES), CALM)
    assert runner.settle(PATIENCE)
    assert lever.held == {}


def test_what_could_not_be_given_back_is_told() -> None:
    toy = Toy()
    runner = runner_of(toy)
    view = view_of([vm(VMS[0])], POLICIES)
    runner.pull(view, asking(balloon={VMS[0]: 1}))
    assert runner.settle(PATIENCE)
    toy.failing = {VMS[0]}
    (left,) = runner.undo(view, 2 * PATIENCE)
    assert left.startswith(f"balloon of {VMS[0]}: failed")


def test_what_is_being_taken_in_the_end_is_given_back_though_the_host_was_calm() -> None:
    toy = Toy()
    runner = runner_of(toy)
    view = view_of([vm(uuid) for uuid in VMS], POLICIES)
    runner.pull(view, CALM)
    assert runner.settle(PATIENCE)
    toy.lingers = True
    runner.pull(view, asking(balloon={VMS[0]: 1}))
    wait_for(lambda: toy.inside, PATIENCE, "the pull to begin")
    assert runner.undo(view, 2 * PATIENCE) == []
    assert toy.changes == [(VMS[0], "1"), (VMS[0], "None")]
    assert toy.held == {}


def test_a_store_that_is_away_in_the_end_is_told() -> None:
    toy = Toy()
    runner = runner_of(toy)
    view = view_of([vm(VMS[0])], POLICIES)
    runner.pull(view, asking(balloon={VMS[0]: 1}))
    assert runner.settle(PATIENCE)
    toy.away = True
    assert runner.undo(view, 2 * PATIENCE) == ["balloon of every VM: what was taken is not known: away"]
    toy.away = False
    assert runner.undo(view, 2 * PATIENCE) == []


@pytest.mark.parametrize("state", [DomainState.PAUSED, DomainState.SHUTOFF])
def test_what_waits_in_the_end_is_told_where_the_vm_is_still_there(state: DomainState) -> None:
    """What was taken of one that is shut off has ended with its process."""
    toy = Toy()
    runner = runner_of(toy)
    runner.pull(view_of([vm(VMS[0])], POLICIES), asking(balloon={VMS[0]: 1}))
    assert runner.settle(PATIENCE)
    toy.waiting = {VMS[0]}
    left = runner.undo(view_of([replace(vm(VMS[0]), state=state)], POLICIES), 2 * PATIENCE)
    assert left == ([f"balloon of {VMS[0]}: pending (not_running)"] if state is DomainState.PAUSED else [])


def test_in_the_end_it_is_given_back_also_by_a_vm_of_which_nothing_is_known() -> None:
    toy = Toy()
    runner = runner_of(toy)
    runner.pull(view_of([vm(VMS[0])], POLICIES), asking(balloon={VMS[0]: 1}))
    assert runner.settle(PATIENCE)
    assert runner.undo(view_of([vm(VMS[0])], POLICIES, unread=frozenset({VMS[0]})), 2 * PATIENCE) == []
    assert toy.held == {}
