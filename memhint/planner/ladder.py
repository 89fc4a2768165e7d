"""The pressure ladder as a pure state function: which rungs are entered after one more look at the host."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memhint.objects.ladder import EnteredRung, Rung, RungState
from memhint.objects.plan import PressureVerdict
from memhint.planner.pressure import PressureSample, alarms, calm
from memhint.planner.settings import LadderSettings


@dataclass(frozen=True, slots=True)
class LadderState:
    """The rungs that are entered, lowest first, without a gap among those that the settings have."""

    entered: tuple[RungState, ...] = ()
    fruitless: frozenset[Rung] = frozenset({Rung.ADMISSION})  # nobody to ask there: nothing to wait for
    at: float | None = None  # of the last sample; the same moment seen again changes nothing

    @property
    def rungs(self) -> frozenset[Rung]:
        """The rungs that are entered."""
        return frozenset(one.rung for one in self.entered)

    def after(self, fruitless: frozenset[Rung]) -> LadderState:
        """The state once it is known on which rungs there was nobody to ask."""
        return replace(self, fruitless=fruitless)


def next_ladder(state: LadderState, sample: PressureSample, now: float, settings: LadderSettings) -> LadderState:
    """The state after one more sample.

    The lowest rung is entered at once. A higher one is entered when its own limits are passed, and the rung below has
    had ``climb`` seconds to show an effect, unless there was nobody to ask on it. Only the highest rung is ever left,
    one a call, after every signal was calm by that rung's measure for its whole cooldown: down in the reverse order.
    """
    if state.at is not None and now <= state.at:
        return state
    state = replace(state, at=now)
    table = settings.rungs
    known = {one.rung for one in table}
    # Settings may have changed since; what is not a rung any more is undone by not being there.
    entered = [one for one in state.entered if one.rung in known]
    limits = {one.rung: one.limits for one in table}
    for number, one in enumerate(entered):
        if alarms(sample, limits[one.rung]) or not calm(sample, limits[one.rung]):
            entered[number] = replace(one, calm_since=None)
        elif one.calm_since is None:
            entered[number] = replace(one, calm_since=now)
    free = [one for one in table if one.rung not in {seen.rung for seen in entered}]
    waited = not entered or entered[-1].rung in state.fruitless or now - entered[-1].entered_at >= settings.climb
    if free and waited:
        why = alarms(sample, free[0].limits)
        if why:
            return replace(state, entered=(*entered, RungState(free[0].rung, now, "; ".join(why))))
    if entered:
        top = entered[-1]
        if top.calm_since is not None and now - top.calm_since >= limits[top.rung].cooldown:
            return replace(state, entered=tuple(entered[:-1]))
    return replace(state, entered=tuple(entered))


def entered_rungs(state: LadderState, now: float) -> tuple[EnteredRung, ...]:
    """The rungs as a report has them."""
    return tuple(
        EnteredRung(
            one.rung, now - one.entered_at, one.why, None if one.calm_since is None else max(0.0, now - one.calm_since)
        )
        for one in state.entered
    )


def admission(state: LadderState, now: float, settings: LadderSettings) -> PressureVerdict:
    """Whether the host admits: not while any rung is entered."""
    if not state.entered:
        return PressureVerdict(True)
    lowest, top = state.entered[0], state.entered[-1]
    height = f" (up to {top.rung})" if top.rung is not lowest.rung else ""
    if top.calm_since is None:
        return PressureVerdict(False, f"{top.why}{height}")
    cooldown = next((one.limits.cooldown for one in settings.rungs if one.rung is top.rung), 0.0)
    left = max(0.0, cooldown - (now - top.calm_since))
    return PressureVerdict(False, f"calm, {left:.0f} s of cooldown left{height} after: {top.why}")
