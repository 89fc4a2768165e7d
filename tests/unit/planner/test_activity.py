"""Idle, busy and come to rest: told from a footprint that is looked at again and again."""

from memhint.objects.units import GIB, MIB
from memhint.planner.activity import NEVER_IDLE, next_busy, next_idle, next_rest
from memhint.planner.settings import LadderSettings

SETTINGS = LadderSettings()


def test_idle_has_a_hysteresis_and_a_new_vm_is_not_idle() -> None:
    assert next_idle(frozenset(), {"p": 100}, {"p": 100, "new": 5}, 10.0, SETTINGS) == {"p"}
    grown = {"p": 100 + 40 * MIB}  # 4 MiB/s: between the two limits
    assert next_idle(frozenset(), {"p": 100}, grown, 10.0, SETTINGS) == frozenset()
    assert next_idle(frozenset({"p"}), {"p": 100}, grown, 10.0, SETTINGS) == {"p"}
    assert next_idle(frozenset({"p"}), {"p": 100}, {"p": 100 + 90 * MIB}, 10.0, SETTINGS) == frozenset()
    assert next_idle(frozenset({"p", "q"}), {}, {"p": 1}, None, SETTINGS) == {"p"}


def test_how_long_a_vm_is_busy_counts_from_when_it_was_idle_last() -> None:
    sizes = {"p": 1, "q": 1, "new": 1}
    found = next_busy({"q": 2.0, "gone": 9.0}, frozenset({"p"}), frozenset(), sizes, 2.0)
    assert found == {"p": 2.0, "q": 4.0, "new": NEVER_IDLE + 2.0}
    assert next_busy({"p": 4.0}, frozenset(), frozenset({"p"}), {"p": 1}, 2.0) == {}
    assert next_busy({}, frozenset({"p"}), frozenset(), {"p": 1}, None) == {"p": 0.0}


def test_a_vm_comes_to_rest_when_it_has_given_back_and_hardly_shrinks_any_more() -> None:
    tops: dict[str, int] = {}
    before: dict[str, int] = {}
    rests = []
    for use in (100, 100, 900, 900, 500, 120, 112, 60, 60, 55, 70, 70, 55, 55):
        now = {"p": use * MIB}
        idle = frozenset(name for name in now if name in before and now[name] - before[name] <= MIB)
        tops, rested = next_rest(tops, before, now, idle, 1.0, SETTINGS)
        rests.append(use if rested else 0)
        before = now
    # Holding 900 MiB is no rest, nor are the steps down; the few MiB at the end are what idle guests do.
    assert rests == [0, 0, 0, 0, 0, 0, 112, 0, 60, 0, 0, 0, 0, 0]
    assert next_rest(tops, before, {"q": 5}, frozenset({"q"}), 1.0, SETTINGS) == ({"q": 5}, frozenset())
    assert next_rest({"p": GIB}, {}, {"p": 5}, frozenset({"p"}), None, SETTINGS) == ({"p": GIB}, frozenset())


def test_a_vm_that_shrinks_by_as_much_as_counts_is_not_at_rest_however_long_a_cycle_is() -> None:
    tops, before = {"p": 900 * MIB}, {"p": 900 * MIB}
    for use in (860, 840, 820):
        now = {"p": use * MIB}
        tops, rested = next_rest(tops, before, now, frozenset(now), 10.0, SETTINGS)
        assert not rested
        before = now
    assert next_rest(tops, before, before, frozenset(before), 10.0, SETTINGS)[1] == {"p"}
