"""A guest's claim against QEMU's count: an honest one is never flagged, a lying one gains nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.agent.reclaimable import returned
from memhint.objects.discarded import Agreement
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.units import GIB, MIB
from memhint.planner.demand import Past
from memhint.planner.discarded import TOLERANCE, Claim, Pair, ReportingEvidence, believable, follow, prune
from memhint.planner.levers.reporting import by_reporting
from memhint.planner.plan import plan
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from tests.unit import builders

SLACK = 2.0
RSS = 1 * GIB


def sides(host: tuple[float, int], guest: tuple[float, int] | None = None, **changes: object) -> ReportingEvidence:
    """A moment: (when, bytes discarded) of the host, (when, bytes claimed) of the guest."""
    skipped = changes.pop("skipped", 0)
    at, discarded = host
    reading = builders.balloon_reporting(discarded, at, inhibited=int(skipped))  # type: ignore[call-overload]
    base = ReportingEvidence("1:1", "boot-1", reading, Claim(*guest) if guest else None, RSS)
    return replace(base, **changes)


def followed(*moments: ReportingEvidence) -> Pair:
    pair: Pair | None = None
    for one in moments:
        pair = follow(pair, one, SLACK)
    assert pair is not None
    return pair


def test_both_counts_run_from_the_first_observation_of_the_pair() -> None:
    check = followed(
        sides((0, 5 * GIB)),
        sides((0, 5 * GIB), (10, 700 * MIB)),
        sides((13, 5 * GIB), (20, 1700 * MIB)),
        sides((23, 6 * GIB), (20, 1700 * MIB), rss=RSS - 900 * MIB),
    ).check
    assert check.agreement is Agreement.AGREES
    assert (check.claimed, check.discarded, check.observed) == (1000 * MIB, 1 * GIB, 900 * MIB)
    assert check.since == 0
    assert check.at == 23


def test_nothing_is_compared_before_a_reading_of_the_host_that_is_newer_than_the_claim() -> None:
    pair = followed(sides((0, 0)), sides((0, 0), (10, 0)), sides((11, 0), (10, 9 * GIB)))
    assert pair.check.agreement is Agreement.PENDING
    assert pair.check.at is None


LIE = (sides((0, 0)), sides((0, 0), (10, 0)), sides((20, 50 * MIB), (18, 0)), sides((20, 50 * MIB), (28, 2 * GIB)))


def test_a_guest_that_claims_more_is_flagged_and_believed_no_further_than_the_host() -> None:
    check = followed(*LIE, sides((40, 60 * MIB), (38, 2 * GIB))).check
    assert check.agreement is Agreement.OVERCLAIMS
    assert check.overclaims
    assert check.believed == 60 * MIB


@pytest.mark.parametrize(("beyond", "agreement"), [(0, Agreement.AGREES), (1, Agreement.OVERCLAIMS)])
def test_the_tolerance_is_one_batch(beyond: int, agreement: Agreement) -> None:
    claim = 60 * MIB + TOLERANCE + beyond
    moments = (sides((0, 0)), sides((0, 0), (10, 0)), sides((20, 60 * MIB), (15, claim)))
    assert followed(*moments, sides((30, 60 * MIB), (15, claim))).check.agreement is agreement


def test_what_the_host_skipped_and_said_so_is_no_lie() -> None:
    moments = (sides((0, 0)), sides((0, 0), (10, 0)), sides((20, 0), (15, 3 * GIB), skipped=3 * GIB))
    check = followed(*moments, sides((30, 0), (15, 3 * GIB), skipped=3 * GIB)).check
    assert check.agreement is Agreement.AGREES
    assert check.claimed == 0


@pytest.mark.parametrize(
    "change",
    [
        {"instance": "2:2"},  # QEMU started anew, or the VM came by migration
        {"boot_id": "boot-2"},
        {"host": builders.balloon_reporting(10 * MIB, 50.0)},  # another balloon device
        {"claim": Claim(48.0, 5 * MIB)},  # a boot whose id is not known yet
    ],
)
def test_a_count_that_begins_anew_begins_a_pair(change: dict[str, object]) -> None:
    before = followed(sides((0, 20 * MIB)), sides((0, 20 * MIB), (10, 10 * MIB)), sides((20, 1 * GIB), (18, 1 * GIB)))
    now = replace(sides((50, 1 * GIB), (48, 1 * GIB)), **change)
    after = follow(before, now, SLACK)
    assert after.check.since == 50.0
    assert after.check.at is None
    assert after.check.agreement is Agreement.PENDING
    assert after.host == now.host


def test_another_boot_does_not_clear_a_guest_and_another_process_does() -> None:
    flagged = followed(*LIE, sides((40, 60 * MIB), (38, 2 * GIB)))
    rebooted = follow(flagged, sides((50, 60 * MIB), boot_id="boot-2"), SLACK)
    assert rebooted.check.overclaims
    judged = follow(rebooted, sides((50, 60 * MIB), (60, 0), boot_id="boot-2"), SLACK)
    judged = follow(judged, sides((70, 60 * MIB), (60, 0), boot_id="boot-2"), SLACK)
    assert judged.check.agreement is Agreement.AGREES
    assert follow(flagged, sides((50, 0), instance="2:2"), SLACK).check.agreement is Agreement.PENDING


def test_a_boot_id_that_is_missing_once_is_no_other_boot() -> None:
    pair = followed(sides((0, 0)), sides((10, 0), (8, 0), boot_id=None), sides((20, 0), (18, 0)))
    assert pair.check.since == 0


def test_pairs_end_with_their_process() -> None:
    pair = followed(sides((0, 0)))
    assert prune({"a": pair, "b": pair, "c": pair}, {"a": "1:1", "b": "2:2"}) == {"a": pair}


# -- properties ------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["host", "guest"]),  # which of the two is read next
        st.floats(0, 20),  # seconds until then
        st.integers(0, 4 * GIB),  # bytes reported until then
        st.integers(0, 4 * GIB),  # and from the moment it is asked to the one it counts for
        st.integers(0, 100),  # percent of all that the host skips
        st.integers(0, TOLERANCE),  # of a batch that the host has counted and the guest has not yet
    ),
    max_size=30,
)


@given(st.integers(0, 8 * GIB), STEPS)
def test_an_honest_guest_is_never_flagged_whenever_and_however_fast_it_is_read(before: int, steps: list) -> None:
    now, discarded, skipped, counted = 0.0, before, 0, 0
    pair, host, claim = None, builders.balloon_reporting(before, 0.0), None
    for side, wait, reported, late, percent, under_way in steps:
        for seconds, size in ((wait, reported), (SLACK, late)):
            asked, now = now, now + seconds
            skipped += size * percent // 100
            discarded += size - size * percent // 100
        if side == "host":
            host = builders.balloon_reporting(discarded, asked, inhibited=skipped)
        else:
            counted = max(counted, discarded - before + skipped - under_way)
            claim = Claim(asked, counted)
        pair = follow(pair, ReportingEvidence("1:1", "boot-1", host, claim, RSS), SLACK)
        assert not pair.check.overclaims


ANYTHING = st.one_of(st.none(), st.integers(0, 1 << 62))
LIES = st.lists(
    st.tuples(ANYTHING, ANYTHING, ANYTHING, st.sampled_from(["boot-1", "boot-2", None]), st.integers(0, 2 * GIB)),
    min_size=1,
    max_size=12,
)


@given(LIES)
def test_whatever_a_guest_says_nothing_is_higher_than_without_its_word(lies: list) -> None:
    """Capacity and what came back do not move; what may come back stays below what is resident."""
    settings = PlannerSettings(period=10.0)
    pair: Pair | None = None
    hears, deaf, discarded = start(settings), start(settings), 0
    for number, (lifetime, free, unreported, boot_id, step) in enumerate(lies):
        now, discarded = number * 10.0, discarded + step
        word = GuestMemory(
            GuestSource.KERNEL, now, total=4 * GIB, free=free, unreported=unreported, lifetime_reported=lifetime
        )
        claim = None if lifetime is None else Claim(now, lifetime)
        process = builders.process(rss=max(0, 2 * GIB - step))
        reading = builders.balloon_reporting(discarded, now + 5)
        pair = follow(pair, ReportingEvidence(process.instance, boot_id, reading, claim, process.rss), SLACK)
        silent = builders.domain_observation(process=process, guest=None)
        heard = replace(silent, guest=believable(word, pair), balloon_reporting=reading, reporting_check=pair.check)
        policies = {silent.uuid: builders.policy()}
        with_word = plan(builders.host_observation(), [heard], policies, hears, now, settings)
        without = plan(builders.host_observation(), [silent], policies, deaf, now, settings)
        assert with_word.plan == without.plan
        hears, deaf = with_word.state, without.state
        past = Past(process.instance, 0.0, 3.0 * GIB, 0.0, 3 * GIB)
        assert returned(heard, past) == returned(silent, past)
        back = by_reporting(heard)
        assert back.at_most is None or back.at_most <= process.rss
        assert pair.check.believed <= max(0, pair.check.discarded)
        if pair.check.overclaims:
            assert back == by_reporting(silent)
            assert heard.guest is not None
            assert heard.guest.reported is heard.guest.unreported is None
            assert set(heard.guest.clamped) >= {"lifetime_reported", "reported", "unreported"}


@given(st.integers(TOLERANCE + 1, 1 << 60), st.integers(0, 8 * GIB), st.integers(0, 8 * GIB))
def test_every_claim_beyond_the_tolerance_is_found_and_cut_to_what_the_host_counts(
    excess: int, first: int, real: int
) -> None:
    claim = first + real + excess
    pair = followed(
        sides((0, first)), sides((0, first), (10, first)), *(sides((30, first + real), (12, claim)) for _ in range(2))
    )
    assert pair.check.overclaims
    assert pair.check.believed == real
    word = GuestMemory(GuestSource.KERNEL, 12.0, lifetime_reported=claim)
    assert believable(word, pair).lifetime_reported == first + real
