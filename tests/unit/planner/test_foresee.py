from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from memhint.levers.thp import ThpLever, ThpSettings
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.levers import LEVERS, listens
from memhint.objects.policy import Origin, effective
from memhint.objects.units import MIB
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


@pytest.mark.parametrize(
    ("lever", "policy", "answer", "reason", "said"),
    [
        (
            LeverName.SWAP_OUT,
            {"swap_out": "deny"},
            Answer.UNCHANGED,
            Reason.NONE,
            "comes back when it is touched",
        ),
        (LeverName.SWAP_OUT, {"swap_out": "allow"}, Answer.UNCHANGED, Reason.NONE, "[ladder] always"),
        (
            LeverName.SWAP_OUT,
            {"swap_out": "allow", "class": "guaranteed"},
            Answer.REFUSED,
            Reason.CONSENT,
            "nothing of a guaranteed VM",
        ),
        (LeverName.BALLOON, {"balloon": "deny"}, Answer.UNCHANGED, Reason.NONE, "given back"),
        (
            LeverName.BALLOON,
            {"balloon": "allow", "class": "burstable", "min_mb": "512"},
            Answer.REFUSED,
            Reason.CONSENT,
            "best-effort",
        ),
        (
            LeverName.BALLOON,
            {"balloon": "allow", "class": "best-effort", "min_mb": "0"},
            Answer.REFUSED,
            Reason.LIMITS,
            "set min_mb too",
        ),
        (
            LeverName.BALLOON,
            {"balloon": "allow", "class": "best-effort", "min_mb": "512"},
            Answer.UNCHANGED,
            Reason.NONE,
            "under pressure",
        ),
    ],
)
def test_what_takes_under_pressure_says_whom_it_takes_from_and_what_comes_back(
    lever: LeverName, policy: dict[str, str], answer: Answer, reason: Reason, said: str
) -> None:
    one = builders.domain_report(levers=(seen(lever, Observed.OFF),))
    other = {lever.value: "allow" if policy[lever.value] == "deny" else "deny"}
    (state,) = foresee(one, other, policy)
    assert (state.verdict.answer, state.verdict.reason) == (answer, reason)
    assert said in state.verdict.detail


def thp_of(observation: DomainObservation, wish: str, *levers: LeverState) -> Verdict | None:
    """What is foreseen of thp; None where nothing is."""
    found = foresee(replace(builders.domain_report(levers=levers), observation=observation), DENY, {"thp": wish})
    return next((one.verdict for one in found if one.lever is LeverName.THP), None)


def plain(**facts: bool) -> DomainObservation:
    """A VM that runs, none of which is merged."""
    return builders.domain_observation(process=builders.process(ksm_merging=0), facts=builders.facts(**facts))


SMALL = replace(plain(), process=builders.process(ksm_merging=0, small_pages=True))
MERGED = replace(plain(), process=builders.process(ksm_merging=50 * MIB))


@pytest.mark.parametrize("wish", ["on", "auto"])
@pytest.mark.parametrize(
    ("one", "answer", "reason"),
    [
        (SMALL, Answer.UNSUPPORTED, Reason.DEVICE),
        (plain(hugepages=True), Answer.UNSUPPORTED, Reason.DEVICE),
        (plain(locked=True), Answer.UNSUPPORTED, Reason.DEVICE),
        (plain(file_backed=True), Answer.UNSUPPORTED, Reason.DEVICE),
        (plain(realtime=True), Answer.REFUSED, Reason.EXCLUDED),
        (MERGED, Answer.REFUSED, Reason.IN_USE),
        (plain(), Answer.UNCHANGED, Reason.NONE),
    ],
)
def test_huge_pages_are_foretold_as_the_lever_would_answer(
    one: DomainObservation, answer: Answer, reason: Reason, wish: str
) -> None:
    told = thp_of(one, wish, seen(LeverName.THP, Observed.OFF))
    assert told is not None
    assert (told.answer, told.reason) == (answer, reason)
    lever = ThpLever(*[cast("Any", None)] * 3, ThpSettings(), *[cast("Any", lambda: 0.0)] * 3)
    policy = effective({Origin.OPERATOR: {"thp": wish}})
    if told.reason is not Reason.NONE and one is not SMALL:
        assert lever.pull(one, policy, 1 << 30, dry_run=True, stop=lambda: False) == told


def test_huge_pages_that_are_wished_are_foretold_though_no_report_shows_them() -> None:
    told = thp_of(plain(hugepages=True), "on")
    assert told is not None
    assert told.reason is Reason.DEVICE
    assert "calm" in (thp_of(plain(), "on") or Verdict(Answer.FAILED)).detail
    assert thp_of(plain(), "auto") is None
    assert thp_of(replace(plain(), state=DomainState.PAUSED), "on") is None


def test_what_the_hosts_kernel_lacks_it_lacks_under_another_policy() -> None:
    kernel = Verdict(Answer.UNSUPPORTED, Reason.KERNEL, "no transparent huge pages")
    state = replace(seen(LeverName.THP, Observed.OFF), verdict=kernel)
    assert thp_of(plain(), "on", state) == kernel


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ("shared_memory", Reason.DEVICE),
        ("hugepages", Reason.DEVICE),
        ("no_share_pages", Reason.DEVICE),
        ("realtime", Reason.EXCLUDED),
        ("vfio", Reason.EXCLUDED),
    ],
)
def test_merging_is_not_foretold_of_a_vm_that_cannot(fact: str, reason: Reason) -> None:
    one = replace(
        builders.domain_report(levers=(seen(LeverName.DEDUP, Observed.OFF),)), observation=plain(**{fact: True})
    )
    (on,) = foresee(one, DENY, {**DENY, "dedup": "on", "project": "p"})
    assert (on.verdict.answer, on.verdict.reason) == (Answer.UNSUPPORTED, reason)
    (off,) = foresee(one, {**DENY, "dedup": "on"}, DENY)
    assert off.verdict.answer is Answer.UNCHANGED


@pytest.mark.parametrize(
    ("fact", "answer"),
    [("hugepages", Answer.UNSUPPORTED), ("locked", Answer.UNSUPPORTED), ("realtime", Answer.REFUSED)],
)
def test_moves_are_not_foretold_of_a_vm_that_is_not_moved(fact: str, answer: Answer) -> None:
    one = replace(
        builders.domain_report(levers=(seen(LeverName.TIERING, Observed.OFF),)), observation=plain(**{fact: True})
    )
    (state,) = foresee(one, DENY, {**DENY, "tiering": "allow"})
    assert state.verdict.answer is answer


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"reporting_offered": False}, Reason.NEXT_BOOT),
        ({"reporting_offered": False, "persistent": False}, Reason.DEVICE),
        ({"reporting_offered": False, "balloon": False}, Reason.DEVICE),
    ],
)
def test_reporting_that_a_vm_was_started_without_is_foretold_for_its_next_boot(
    facts: dict[str, bool], reason: Reason
) -> None:
    state = replace(seen(LeverName.REPORTING, Observed.UNSUPPORTED), verdict=Verdict(Answer.UNSUPPORTED, Reason.DEVICE))
    one = replace(builders.domain_report(levers=(state,)), observation=plain(**facts))
    (found,) = foresee(one, DENY, {**DENY, "reporting": "on"})
    assert found.verdict.reason is reason


def test_every_lever_that_policy_decides_over_is_foreseen() -> None:
    assert set(_OF) == {name for name in LEVERS if listens(name)}


def test_levers_that_a_change_does_not_concern_are_not_told() -> None:
    one = builders.domain_report(levers=(seen(LeverName.DEDUP, Observed.OFF), seen(LeverName.LADDER, Observed.ON)))
    assert foresee(one, DENY, {**DENY, "reporting": "off"}) == ()
    assert foresee(one, DENY, DENY) == ()
