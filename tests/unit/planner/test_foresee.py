from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.levers import LEVERS, listens
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.foresee import _OF, foresee
from tests.unit import builders

DENY = {"guest_actions": "deny", "reporting": "auto", "dedup": "off", "project": ""}


def seen(lever: LeverName, observed: Observed, verdict: Answer = Answer.UNCHANGED) -> LeverState:
    return builders.lever_state(lever=lever, observed=observed, verdict=Verdict(verdict))


@pytest.mark.parametrize(
    ("lever", "observed", "changes", "answer", "reason"),
    [
        (LeverName.REPORTING, Observed.ON, {"reporting": "off"}, Answer.REFUSED, Reason.CONSENT),
        (
            LeverName.REPORTING,
            Observed.ON,
            {"reporting": "off", "guest_actions": "allow"},
            Answer.PLANNED,
            Reason.DRY_RUN,
        ),
        (LeverName.REPORTING, Observed.ON, {"reporting": "on"}, Answer.UNCHANGED, Reason.NONE),
        (LeverName.REPORTING, Observed.UNSUPPORTED, {"reporting": "on"}, Answer.UNSUPPORTED, Reason.NONE),
        (LeverName.REPORTING, Observed.ON, {"reporting": None}, Answer.PENDING, Reason.NONE),
        (LeverName.DEDUP, Observed.OFF, {"dedup": "on"}, Answer.REFUSED, Reason.NO_PROJECT),
        (LeverName.DEDUP, Observed.OFF, {"dedup": "on", "project": "p"}, Answer.PLANNED, Reason.DRY_RUN),
        (LeverName.DEDUP, Observed.ON, {"dedup": "on"}, Answer.UNCHANGED, Reason.NONE),
        (LeverName.CACHE, Observed.ON, {"guest_actions": "allow"}, Answer.UNCHANGED, Reason.NONE),
        (LeverName.BALLOON, Observed.OFF, {"balloon": "allow"}, Answer.UNCHANGED, Reason.NONE),
        (LeverName.RECYCLER, Observed.OFF, {"recycler": "on"}, Answer.PLANNED, Reason.DRY_RUN),
        (LeverName.THP, Observed.OFF, {"thp": "off"}, Answer.UNCHANGED, Reason.NONE),
        (
            LeverName.TIERING,
            Observed.OFF,
            {"tiering": "allow", "fast_min": "60%", "fast_max": "50%"},
            Answer.REFUSED,
            Reason.LIMITS,
        ),
        (LeverName.QOS, Observed.ON, {"class": "guaranteed"}, Answer.PLANNED, Reason.DRY_RUN),
    ],
)
def test_what_a_lever_would_do(
    lever: LeverName, observed: Observed, changes: dict[str, str | None], answer: Answer, reason: Reason
) -> None:
    one = builders.domain_report(levers=(seen(lever, observed),))
    one = replace(one, observation=replace(one.observation, facts=replace(one.observation.facts, project=None)))
    (state,) = foresee(one, DENY, {**DENY, **changes})
    assert (state.verdict.answer, state.verdict.reason) == (answer, reason)


def test_every_lever_that_policy_decides_over_is_foreseen() -> None:
    assert set(_OF) == {name for name in LEVERS if listens(name)}


def test_levers_that_a_change_does_not_concern_are_not_told() -> None:
    one = builders.domain_report(levers=(seen(LeverName.DEDUP, Observed.OFF), seen(LeverName.LADDER, Observed.ON)))
    assert foresee(one, DENY, {**DENY, "reporting": "off"}) == ()
    assert foresee(one, DENY, DENY) == ()
