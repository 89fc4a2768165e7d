"""Any order of requests, cycles, ends, looks, failures and a stop: each ends once, and nobody is asked twice."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memhint.objects.policy import Origin, effective
from memhint.objects.reclaim import Hold, Reclaim, ReclaimState, Stop, released
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.reclaim_schedule import MISSES, Due, Schedule, Task, failed, orphaned
from tests.unit import builders
from tests.unit.builders import DB, NOW, WEB

ALLOW, DENY = effective({Origin.OPERATOR: {"guest_actions": "allow"}}), effective({})
AT_ONCE, EVERY = 2, 10.0
UUIDS = (WEB, DB, builders.domain_observation().uuid[:-4] + "ffff")
WORD = Verdict(Answer.FAILED, Reason.INTERRUPTED, "enough")
DONE = Verdict(Answer.APPLIED, Reason.NONE, "done")


class Schedules(RuleBasedStateMachine):
    """What the agent does with a schedule, with guests, threads and a store that are only numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.made, self.life = NOW, 0, 0
        self.here = dict.fromkeys(UUIDS, ALLOW)
        self.stored: dict[str, Reclaim] = {}
        self.asked: list[str] = []  # requests whose guest was asked
        self.ended: list[str] = []
        self.live: set[str] = set()  # requests that have not ended
        self.next_life()

    def next_life(self) -> None:
        self.life += 1
        self.schedule = Schedule(f"life-{self.life}", AT_ONCE, EVERY)
        self.running: list[Task] = []
        self.looks: list[Task] = []

    def over(self, ended: Reclaim) -> None:
        assert ended.state.ended
        assert ended.ended is not None
        self.ended.append(ended.request.id)
        self.live.discard(ended.request.id)
        self.stored.pop(ended.request.id, None)

    def keep(self, tasks: list[Task]) -> None:
        for task in tasks:
            self.over(task.reclaim)

    @rule(uuid=st.sampled_from(UUIDS), hold=st.sampled_from((300.0, 300.0, 0.0)), stored=st.booleans())
    def ask(self, uuid: str, hold: float, stored: bool) -> None:
        self.made += 1
        made = builders.reclaim_request(
            id=f"req-{self.made}", uuid=uuid, at=self.now, expires=self.now + 40, hold=hold, by="me"
        )
        self.live.add(made.id)
        if stored:
            self.stored[made.id] = Reclaim(made)
        else:
            self.schedule.waiting.append(Reclaim(made))

    @rule(uuid=st.sampled_from(UUIDS), policy=st.sampled_from((ALLOW, ALLOW, ALLOW, DENY, None)))
    def change(self, uuid: str, policy) -> None:
        if policy is None:
            self.here.pop(uuid, None)
        else:
            self.here[uuid] = policy

    @rule(seconds=st.sampled_from((11.0, 11.0, 1.0, 45.0)), fails=st.sampled_from((False, False, True)))
    def cycle(self, seconds: float, fails: bool) -> None:
        self.now += seconds
        self.schedule.see([builders.domain_observation(uuid=uuid) for uuid in self.here], self.here)
        waiting = [one.request.id for one in self.schedule.waiting]
        due: Due = self.schedule.due([one for one in self.stored.values() if not one.begun], self.now)
        for one in due.expired:
            self.over(one)
        for task in due.begin:
            if fails and task.stored:  # the store is away
                self.schedule.put_back(task)
                continue
            assert task.reclaim.request.id not in self.asked
            assert task.reclaim.request.expires >= self.now
            assert task.uuid in self.here
            self.asked.append(task.reclaim.request.id)
            if task.stored:
                self.stored[task.reclaim.request.id] = task.reclaim
            self.running.append(task)
        self.keep(due.ended)
        for task in due.look:
            assert self.here.get(task.uuid) is ALLOW
            if fails:  # no thread to spare
                self.schedule.put_back(task)
            else:
                self.looks.append(task)
        begun = {task.reclaim.request.id for task in due.begin}
        left = {one.request.id for one in self.schedule.waiting}
        for request in waiting:
            if request not in left and request not in begun:  # expired, and in no store
                self.live.discard(request)
                self.ended.append(request)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), good=st.sampled_from((True, True, False)))
    def carried_out(self, data: st.DataObject, good: bool) -> None:
        task = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        request = task.reclaim.request
        _, word = self.schedule.progress(task, replace(task.reclaim, calls=1))
        if word is not None or not good:
            done = failed(task.reclaim, word or WORD, self.now)
        elif request.hold:
            held = Hold(self.now, self.now + request.hold, 0, 0)
            done = replace(task.reclaim, state=ReclaimState.HOLDING, verdict=DONE, held=held)
        else:
            done = replace(task.reclaim, state=ReclaimState.DONE, verdict=DONE, ended=self.now)
        self.keep(self.schedule.ran(task, done, self.now))
        if task.stored and request.id in self.live:
            self.stored[request.id] = task.reclaim

    @precondition(lambda self: self.looks)
    @rule(data=st.data(), answer=st.sampled_from(("lost", "lost", "nothing", "wanted")))
    def looked(self, data: st.DataObject, answer: str) -> None:
        self.answered(self.looks.pop(data.draw(st.integers(0, len(self.looks) - 1))), answer)

    @precondition(lambda self: self.schedule.held)
    @rule(times=st.integers(MISSES - 1, MISSES), after=st.sampled_from(("lost", "nothing")))
    def guests_fall_silent(self, times: int, after: str) -> None:
        """For some looks in a row, which single rules in random order hardly ever bring about."""
        for answer in (*("lost" for _ in range(times)), after):
            self.cycle(EVERY, fails=False)
            while self.looks:
                self.answered(self.looks.pop(), answer)

    def answered(self, task: Task, answer: str) -> None:
        missed, request = task.missed, task.reclaim.request.id
        found = task.reclaim if answer == "nothing" else released(task.reclaim, Stop.WANTED, self.now)
        objection = self.schedule.objection(task)
        ended = self.schedule.looked(task, found, self.now, lost=answer == "lost")
        over = answer == "wanted" or objection is not None or (answer == "lost" and missed + 1 == MISSES)
        assert [one.reclaim.request.id for one in ended] == ([request] if over else [])
        assert task.missed == (missed + 1 if answer == "lost" else 0)
        self.keep(ended)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def taken_back(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.live)))
        if any(one.request.id == request for one in self.schedule.waiting):
            self.live.discard(request)
            self.ended.append(request)
        elif request in self.stored and not self.stored[request].begun:
            self.over(failed(self.stored[request], WORD, self.now))
        self.schedule.cancel(request, WORD, self.now)
        for task in (*self.running, *self.looks):
            if task.reclaim.request.id == request:
                assert self.schedule.objection(task) is not None

    @precondition(lambda self: self.made > 4 * self.life)
    @rule(killed=st.booleans())
    def restart(self, killed: bool) -> None:
        for one in self.schedule.waiting:  # nobody remembers them
            self.live.discard(one.request.id)
        if not killed:
            self.keep(self.schedule.stop(self.now))
            for task in self.running:
                assert self.schedule.objection(task) is not None
                self.keep(self.schedule.ran(task, failed(task.reclaim, WORD, self.now), self.now))
            for task in self.looks:
                self.keep(self.schedule.looked(task, task.reclaim, self.now))
            assert not self.schedule.running
            assert not self.schedule.held
        for task in (*self.schedule.running.values(), *self.schedule.held.values()):
            if not task.stored:
                self.live.discard(task.reclaim.request.id)
        self.next_life()
        for one in orphaned(self.stored.values(), f"life-{self.life}", self.now):
            self.over(one)
        assert not any(one.begun for one in self.stored.values())

    @invariant()
    def each_ends_once(self) -> None:
        assert len(self.ended) == len(set(self.ended))

    @invariant()
    def none_is_lost(self) -> None:
        tasks = (*self.schedule.running.values(), *self.schedule.held.values())
        known = {one.reclaim.request.id for one in tasks} | {one.request.id for one in self.schedule.waiting}
        assert known | set(self.stored) == self.live

    @invariant()
    def no_more_than_may_go_on_at_once(self) -> None:
        assert {task.uuid for task in self.running} == self.schedule.running.keys()
        assert len(self.running) <= AT_ONCE
        assert len(self.looks) <= AT_ONCE
        assert not {one.uuid for one in self.running} & {one.uuid for one in self.looks}

    @invariant()
    def what_runs_is_shown(self) -> None:
        for task in self.running:
            assert self.schedule.newest(task.uuid) is task.reclaim
            assert self.schedule.busy(task.uuid)


Schedules.TestCase.settings = settings(max_examples=1_000, stateful_step_count=60, deadline=None)
TestSchedules = Schedules.TestCase
