"""The pressure ladder as a pure state function: which rungs are entered after one more look at the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memhint.objects.ladder import EnteredRung, Rung, RungState
from memhint.objects.plan import PressureVerdict
from memhint.planner.pressure import PressureSample, alarms, calm
from memhint.planner.settings import LadderSettings, RungLimits

_SEEN = 128  # samples that are remembered: two a second for a minute
Seen = tuple[tuple[float, float], ...]  # when, and percent available, oldest first


@dataclass(frozen=True, slots=True)
class LadderState:
    """The rungs that are entered, lowest first, without a gap among those that the settings have."""

    entered: tuple[RungState, ...] = ()
    fruitless: frozenset[Rung] = frozenset({Rung.ADMISSION})  # no VM to ask there: nothing to wait for
    at: float | None = None  # of the last sample; the same moment seen again changes nothing
    seen: Seen = ()  # what tells whether memory falls

    @property
    def rungs(self) -> frozenset[Rung]:
        """The rungs that are entered."""
        return frozenset(one.rung for one in self.entered)

    def after(self, fruitless: frozenset[Rung]) -> LadderState:
        """The state once it is known on which rungs there was no VM to ask."""
        return replace(self, fruitless=fruitless)


def next_ladder(state: LadderState, sample: PressureSample, now: float, settings: LadderSettings) -> LadderState:
    """The state after one more sample.

    The lowest rung is entered at once. A higher one is entered when its own limits are passed, and the rung below has
    had ``climb`` seconds to show an effect, unless there was no VM to ask on it. Where memory falls so fast that it
    will have passed further rungs before that, they are entered at once. Only the highest rung is ever left, one a
    call, after every signal was calm by that rung's measure for its whole cooldown: down in the reverse order.
    """
    if state.at is not None and now <= state.at:
        return state
    state = replace(state, at=now, seen=look_again(state.seen, now, sample.available, settings.climb))
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
    new = []
    if free and waited and (why := alarms(sample, free[0].limits)):
        new = [RungState(free[0].rung, now, "; ".join(why))]
    if entered or new:
        new += _falling(free[len(new) :], state.seen, settings.climb)
    if new:
        return replace(state, entered=(*entered, *new))
    if entered:
        top = entered[-1]
        if top.calm_since is not None and now - top.calm_since >= limits[top.rung].cooldown:
            return replace(state, entered=tuple(entered[:-1]))
    return replace(state, entered=tuple(entered))


def look_again(seen: Seen, now: float, available: float, climb: float) -> Seen:
    """What was seen, with one more sample: the last ``climb`` seconds, and the look before if it is not long ago."""
    first = max((place for place, (at, _) in enumerate(seen) if at <= now - climb), default=0)
    return (*(one for one in seen[first:][-_SEEN:] if one[0] >= now - 2 * climb), (now, available))


def _falling(free: Sequence[RungLimits], seen: Seen, climb: float) -> Iterator[RungState]:
    """The rungs that memory will have passed in ``climb`` seconds if it goes on to fall, up to the first it will not.

    A fall no wider than what lies between a rung's entry and exit may be noise, and is none to that rung.
    """
    (begin, before), (now, available) = seen[0], seen[-1]
    fall = before - available
    if fall <= 0 or now - begin < climb / 2:
        return
    ahead = max(0.0, available - fall * climb / (now - begin))
    why = f"available {available:.1f} % of the pool, and {ahead:.1f} % in {climb:g} s as it falls"
    for one in free:
        enter, leave = one.limits.available_enter, one.limits.available_exit
        if available > enter and (ahead > enter or fall < leave - enter):
            return
        yield RungState(one.rung, now, f"{why} (enters at {enter:g} %)")


def is_scarce(state: LadderState, settings: LadderSettings) -> bool:
    """Whether a rung is entered that takes the host being short of memory, whoever else waits."""
    return any(one.limits.needs_scarcity and one.rung in state.rungs for one in settings.rungs)


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
