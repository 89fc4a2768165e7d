"""The cache rung: each guest is asked once at a time, left alone for a while, and taken back when the rung is left."""

import itertools
from dataclasses import replace

from memhint.objects.reclaim import SMALLEST, Reclaim, ReclaimRequest, ReclaimState
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.relief.cache_asks import BY, CacheAsks
from memhint.planner.relief.relieve import CALM, PRESSED
from tests.unit import builders
from tests.unit.builders import DB, WEB


def ended(at: float, reason: str = PRESSED, **changes) -> Reclaim:
    request = ReclaimRequest("r", "a", 1 << 20, 10.0, 60.0, reason, BY, 0.0, 30.0).check()
    return replace(Reclaim(request), state=ReclaimState.DONE, ended=at, **changes)


def test_a_guest_is_asked_once_at_a_time_and_left_alone_for_a_while() -> None:
    asks = CacheAsks(30.0, always=False)
    free = {"a": None, "b": None}
    assert asks.due({"a": 500 << 20, "b": 1}, free, 100.0, pressed=True) == {"a": 500 << 20, "b": SMALLEST}
    assert asks.due({"a": 1 << 20}, {}, 110.0, pressed=True) == {}
    assert asks.due({"a": 1 << 20}, {"a": ended(115.0)}, 140.0, pressed=True) == {}
    assert asks.due({"a": 1 << 20}, {"a": ended(115.0)}, 145.0, pressed=True) == {"a": 1 << 20}


def test_a_clock_that_was_set_back_has_no_guest_left_alone_for_as_long() -> None:
    asks = CacheAsks(30.0, always=True)
    wish = {"a": 1 << 20}
    assert asks.due(wish, {"a": ended(4000.0)}, 3999.0, pressed=True) == {}  # it ended within the cycle
    assert asks.due(wish, {"a": ended(4000.0)}, 400.0, pressed=True) == wish
    assert asks.due(wish, {"a": None}, 4000.0, pressed=False) == wish
    assert asks.due(wish, {"a": None}, 400.0, pressed=False) == wish


def test_what_the_ladder_asked_is_taken_back_of_whom_it_does_not_ask_any_more() -> None:
    web, db = builders.domain_observation(uuid=WEB), builders.domain_observation(uuid=DB, process=None)
    assert web.process is not None
    idle = frozenset({web.process.instance})

    pressed = CacheAsks(30.0, always=True).withdrawal([web, db], idle, pressed=True)
    assert (pressed.uuids, pressed.asked) == ((WEB, DB), CALM)

    calm = CacheAsks(30.0, always=True).withdrawal([web, db], idle, pressed=False)
    assert (calm.uuids, calm.asked) == ((DB,), None)

    left = CacheAsks(30.0, always=False).withdrawal([web, db], idle, pressed=False)
    assert (left.uuids, left.asked) == ((WEB, DB), None)


def test_who_was_asked_for_another_reason_and_not_let_finish_is_asked_at_once() -> None:
    asks = CacheAsks(30.0, always=True)
    taken_back = Verdict(Answer.FAILED, Reason.INTERRUPTED, "short now")
    wished = {"a": 1 << 20, "b": 1 << 20}
    free = {"a": ended(101.0, CALM, verdict=taken_back), "b": ended(101.0, CALM)}
    assert asks.due({"a": 1 << 20}, free, 102.0, pressed=False) == {}
    assert asks.due(wished, free, 102.0, pressed=True) == {"a": 1 << 20}


def test_an_idle_vm_is_asked_after_ever_longer_times_and_at_once_when_it_was_busy() -> None:
    """One that reads files all the time looks idle, and would give and fill for ever."""
    web = builders.domain_observation(uuid=WEB)
    asks, last, asked = CacheAsks(30.0, always=True), None, []
    for second in range(0, 4 * 3600, 10):
        if asks.due({WEB: 1 << 30}, {WEB: last}, float(second), pressed=False):
            asked.append(second)
            last = ended(float(second), CALM)
    gaps = [later - one for one, later in itertools.pairwise(asked)]
    assert gaps[:4] == [30, 60, 120, 240]
    assert max(gaps) == 3600
    asks.withdrawal([web], frozenset(), pressed=False)
    assert asks.due({WEB: 1 << 30}, {WEB: last}, 4 * 3600.0, pressed=False) == {WEB: 1 << 30}
