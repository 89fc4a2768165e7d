"""The cache rung: each guest is asked once at a time, left alone for a while, and taken back when the rung is left."""

from dataclasses import replace

from memhint.agent.ladder_reclaims import BY, LadderReclaims
from memhint.objects.reclaim import SMALLEST, Reclaim, ReclaimRequest, ReclaimState


class Reclaims:
    """What was submitted and cancelled; the newest by VM."""

    def __init__(self) -> None:
        self.newest: dict[str, Reclaim] = {}
        self.submitted: list[tuple[str, int]] = []
        self.cancelled: list[str] = []

    def submit(self, uuid, size, *, reason, by, psi_limit, time_to_live):
        self.submitted.append((uuid, size))
        request = ReclaimRequest(f"r{len(self.submitted)}", uuid, size, psi_limit, 60.0, reason, by, 0.0, time_to_live)
        self.newest[uuid] = Reclaim(request.check(), state=ReclaimState.RUNNING)

    def busy(self, uuid):
        return uuid in self.newest and not self.newest[uuid].state.ended

    def news(self, uuid):
        return self.newest.get(uuid)

    def cancel(self, request, why):
        self.cancelled.append(request)

    def end(self, uuid, at):
        self.newest[uuid] = replace(self.newest[uuid], state=ReclaimState.DONE, ended=at)


def test_a_guest_is_asked_once_at_a_time_and_left_alone_for_a_while() -> None:
    reclaims = Reclaims()
    ladder = LadderReclaims(reclaims, 10.0, 30.0)
    ladder.ask({"a": 500 << 20, "b": 1}, 100.0)
    assert reclaims.submitted == [("a", 500 << 20), ("b", SMALLEST)]
    ladder.ask({"a": 1 << 20}, 110.0)
    reclaims.end("a", 115.0)
    ladder.ask({"a": 1 << 20}, 140.0)
    assert len(reclaims.submitted) == 2
    ladder.ask({"a": 1 << 20}, 145.0)
    assert reclaims.submitted[2:] == [("a", 1 << 20)]


def test_what_the_ladder_asked_is_taken_back_and_an_operator_s_is_not() -> None:
    reclaims = Reclaims()
    ladder = LadderReclaims(reclaims, 10.0, 30.0)
    ladder.ask({"a": 1 << 20, "b": 1 << 20, "c": 1 << 20}, 100.0)
    mine = reclaims.newest["b"]
    reclaims.newest["b"] = replace(mine, request=replace(mine.request, by="operator"))
    reclaims.end("c", 101.0)
    ladder.withdraw(["a", "b", "c", "d"])
    assert reclaims.cancelled == [reclaims.newest["a"].request.id]
    assert reclaims.newest["a"].request.by == BY
