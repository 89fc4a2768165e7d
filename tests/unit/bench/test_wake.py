"""When a woken guest has its huge pages again, and what the agent took for it."""

from __future__ import annotations

import pytest

from bench.suite.wake import LASTS, MEMHINT, WITHOUT, Woken, _table, targets


def woken(*shares: float, usual: float = 0.1) -> Woken:
    """One look every ten seconds; the agent took a second of CPU in each ten besides its usual work."""
    seen = [(10.0 * place, round(1000 * share)) for place, share in enumerate(shares)]
    return Woken(1000, 100, seen, usual, [(at, at * usual + at / 10) for at, _ in seen])


QUICK, SLOW, NEVER = woken(0.1, 0.5, 0.95, 1.0), woken(0.1, 0.2, 0.3, 0.9), woken(0.1, 0.2, 0.3, 0.4)


def test_it_has_them_again_at_the_first_look_that_shows_so() -> None:
    assert (QUICK.again, SLOW.again, NEVER.again) == (20.0, 30.0, None)


def test_the_agent_s_usual_work_is_not_counted() -> None:
    assert QUICK.took == pytest.approx(2.0)
    assert woken(0.1, 0.95, usual=0.5).took == pytest.approx(1.0)
    assert NEVER.took == pytest.approx(3.0)  # up to the last look


def test_the_slowest_round_decides_and_one_that_never_came_counts_in_full() -> None:
    def told(*runs: Woken) -> tuple[float, bool]:
        (verdict,) = targets({WITHOUT.name: [NEVER], MEMHINT.name: runs})
        return verdict.measured, verdict.met

    assert told(QUICK, SLOW, QUICK) == (30.0, True)
    assert told(QUICK, NEVER, QUICK) == (LASTS, False)


def test_an_arm_of_which_one_round_never_came_has_no_time() -> None:
    with_one, without = _table({MEMHINT.name: [QUICK, SLOW], WITHOUT.name: [QUICK, NEVER]}).arms
    assert with_one.figures["again"] is not None
    assert with_one.figures["again"].median == 25.0
    assert without.figures["again"] is None
    assert without.figures["at10"] is not None
    assert without.figures["at10"].median == pytest.approx(35.0)
