"""How the promised headroom moves from one cycle to the next: down at once, up slowly and not for a trifle."""

from __future__ import annotations

from memhint.planner.settings import PlannerSettings


def hysteresis(pool: int, settings: PlannerSettings) -> int:
    """Bytes by which there must be more than was promised before more is promised."""
    return int(pool * settings.raise_hysteresis_percent / 100)


def next_headroom(before: int, found: int, pool: int, elapsed: float, settings: PlannerSettings) -> int:
    """The headroom to promise, in bytes, after ``before`` was promised and ``found`` is what there is now.

    Less is promised at once. More is promised only where it is more by ``raise_hysteresis_percent`` of the pool, and
    then by at most ``raise_percent_per_minute`` of the pool: a signal that is no wider than the hysteresis cannot make
    the promise go up and down.
    """
    if found <= before:
        return found
    if found - before < hysteresis(pool, settings):
        return before
    step = int(pool * settings.raise_percent_per_minute / 100 * max(0.0, elapsed) / 60)
    return min(found, before + step)
