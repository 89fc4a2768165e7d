"""The cache rung: each guest is asked once at a time, left alone for a while, and taken back when the rung is left."""

import itertools
from dataclasses import replace

from memhint.agent.ladder_reclaims import BY, LadderReclaims
from memhint.objects.reclaim import SMALLEST, Reclaim, ReclaimRequest, ReclaimState
from memhint.objects.verdict import Answer, Reason, Verdict


class Reclaims:
    """What was submitted and cancelled; the newest by VM."""

    def __init__(self) -> None:
        self.newest: dict[str, Reclaim] = {}
        self.submitted: list[tuple[str, int]] = []
        self.withdrawn: list[tuple[str, str, str, str | None]] = []

    def submit(self, uuid, size, *, reason, by, psi_limit, time_to_live):
        self.submitted.append((uuid, size))
        request = ReclaimRequest(f"r{len(self.submitted)}", uuid, size, psi_limit, 60.0, reason, by, 0.0, time_to_live)
        self.newest[uuid] = Reclaim(request.check(), state=ReclaimState.RUNNING)

    def busy(self, uuid):
        return uuid in self.newest and not self.newest[uuid].state.ended

    def news(self, uuid):
        return self.newest.get(uuid)

    def withdraw(self, uuid, by, why, asked):
        self.withdrawn.append((uuid, by, why, asked))

    def end(self, uuid, at, **changes):
        self.newest[uuid] = replace(self.newest[uuid], state=ReclaimState.DONE, ended=at, **changes)


def test_a_guest_is_asked_once_at_a_time_and_left_alone_for_a_while() -> None:
    reclaims = Reclaims()
    ladder = LadderReclaims(reclaims, 10.0, 30.0)
    ladder.ask({"a": 500 << 20, "b": 1}, 100.0, "short")
    assert reclaims.submitted == [("a", 500 << 20), ("b", SMALLEST)]
    ladder.ask({"a": 1 << 20}, 110.0, "short")
    reclaims.end("a", 115.0)
    ladder.ask({"a": 1 << 20}, 140.0, "short")
    assert len(reclaims.submitted) == 2
    ladder.ask({"a": 1 << 20}, 145.0, "short")
    assert reclaims.submitted[2:] == [("a", 1 << 20)]


def test_what_the_ladder_asked_is_taken_back_and_nobody_else_s() -> None:
    reclaims = Reclaims()
    ladder = LadderReclaims(reclaims, 10.0, 30.0)
    ladder.withdraw(["a", "b"], "enough")
    ladder.withdraw(["a"], "short now", asked="idle")
    assert reclaims.withdrawn == [
        ("a", BY, "enough", None),
        ("b", BY, "enough", None),
        ("a", BY, "short now", "idle"),
    ]


def test_who_was_asked_for_another_reason_and_not_let_finish_is_asked_at_once() -> None:
    reclaims = Reclaims()
    ladder = LadderReclaims(reclaims, 10.0, 30.0)
    taken_back = Verdict(Answer.FAILED, Reason.INTERRUPTED, "short now")
    ladder.ask({"a": 1 << 20, "b": 1 << 20}, 100.0, "idle")
    reclaims.end("a", 101.0, verdict=taken_back)
    reclaims.end("b", 101.0)
    ladder.ask({"a": 1 << 20}, 102.0, "idle")
    assert len(reclaims.submitted) == 2
    ladder.ask({"a": 1 << 20, "b": 1 << 20}, 102.0, "short")
    assert reclaims.submitted[2:] == [("a", 1 << 20)]


def test_an_idle_vm_is_asked_after_ever_longer_times_and_at_once_when_it_was_busy() -> None:
    """One that reads files all the time looks idle, and would give and fill for ever."""
    reclaims = Reclaims()
    ladder = LadderReclaims(reclaims, 10.0, 30.0)
    asked = []
    for second in range(0, 4 * 3600, 10):
        before = len(reclaims.submitted)
        ladder.ask_idle({"a": 1 << 30}, float(second), "idle")
        if len(reclaims.submitted) > before:
            asked.append(second)
            reclaims.end("a", float(second))
    gaps = [later - one for one, later in itertools.pairwise(asked)]
    assert gaps[:4] == [30, 60, 120, 240]
    assert max(gaps) == 3600
    ladder.woke(["a"])
    ladder.ask_idle({"a": 1 << 30}, 4 * 3600.0, "idle")
    assert reclaims.submitted[len(asked) :] == [("a", 1 << 30)]
