"""The cache lever: who may be asked, how much, what came back as the host saw it, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.guest.capabilities import Capabilities, read_capabilities
from memhint.guest.commands import GET_MEMINFO, RECLAIM_MEMORY, SET_PAGE_REPORTING
from memhint.guest.errors import GuestAgentAbsent
from memhint.levers.cache import IDLE, CacheLever, CacheTarget
from memhint.objects.domain import DomainState
from memhint.objects.lever import Observed
from memhint.objects.policy import Origin, effective
from memhint.objects.reclaim import Reclaim, ReclaimState, Stop
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.guest.fake_reclaim import FakeGuest

ABLE = Capabilities("10.0", frozenset({RECLAIM_MEMORY, GET_MEMINFO}))


def pull(guest: FakeGuest, *, consent: str = "allow", domain=None, tell=lambda now: None, **request) -> Reclaim:
    def capabilities() -> Capabilities:
        with guest.conversation() as agent:
            return read_capabilities(agent)

    target = CacheTarget(
        domain or builders.domain_observation(),
        effective({Origin.OPERATOR: {"guest_actions": consent}}),
        capabilities,
        guest.conversation,
        guest.footprint,
    )
    wanted = Reclaim(builders.reclaim_request(**request), state=ReclaimState.RUNNING)
    return CacheLever(guest.clock, guest.sleep).pull(target, wanted, tell)


def test_all_that_is_cold_comes_back_and_the_rest_is_not_asked_for() -> None:
    guest = FakeGuest(cold=600 * MIB, active=40 * MIB)
    found = pull(guest)
    assert (found.state, found.stop, found.asked) == (ReclaimState.DONE, Stop.DONE, 600 * MIB)
    assert (found.reclaimed, found.returned, found.flushed) == (600 * MIB, 600 * MIB, 600 * MIB)
    assert found.verdict.answer is Answer.APPLIED
    assert "600 of 600 MiB reclaimed, compacted" in found.verdict.detail
    assert guest.active == 40 * MIB


def test_a_size_is_bounded_by_what_is_cold() -> None:
    assert pull(FakeGuest(), size=100 * MIB).asked == 100 * MIB
    assert pull(FakeGuest(cold=10 * MIB), size=500 * MIB).asked == 10 * MIB


def test_a_lying_guest_is_believed_no_more_than_it_was_given() -> None:
    guest = FakeGuest()
    guest.changes = {"reclaimed": 1 << 50}
    found = pull(guest)
    assert found.reclaimed <= builders.facts().memory
    assert found.returned == 600 * MIB


def test_a_dry_run_asks_for_nothing() -> None:
    guest = FakeGuest()
    found = pull(guest, dry_run=True)
    assert (found.state, found.verdict.reason) == (ReclaimState.DONE, Reason.DRY_RUN)
    assert "600 MiB of page cache" in found.verdict.detail
    assert guest.calls() == guest.calls(SET_PAGE_REPORTING) == []


@pytest.mark.parametrize("dry_run", [True, False])
def test_without_consent_nothing_is_asked_for(dry_run: bool) -> None:
    guest = FakeGuest()
    found = pull(guest, consent="deny", dry_run=dry_run)
    assert (found.state, found.verdict.reason) == (ReclaimState.REFUSED, Reason.CONSENT)
    assert guest.calls() == []


def test_a_guest_with_nothing_cold_is_left_alone() -> None:
    guest = FakeGuest(cold=0, active=0)
    found = pull(guest)
    assert (found.state, found.stop, found.verdict.answer) == (ReclaimState.DONE, Stop.EXHAUSTED, Answer.UNCHANGED)
    assert guest.calls() == []


def test_pressure_before_the_first_byte_is_a_refusal_and_later_an_end() -> None:
    guest = FakeGuest()
    guest.pressure = lambda at: 50.0
    found = pull(guest)
    assert (found.state, found.verdict.reason) == (ReclaimState.REFUSED, Reason.GUEST_PRESSURE)
    guest.pressure = lambda at: 50.0 if at > guest_began + 1 else 0.0
    guest_began = guest.now
    found = pull(guest)
    assert (found.state, found.stop) == (ReclaimState.DONE, Stop.PRESSURE)
    assert (found.verdict.answer, found.verdict.reason) == (Answer.APPLIED, Reason.GUEST_PRESSURE)
    assert found.returned == found.reclaimed > 0  # what it freed is flushed even so


def test_what_was_reported_on_the_way_is_flushed_too_for_cpus_keep_some_of_it() -> None:
    class Quick(FakeGuest):
        def __call__(self, request: str, timeout: int) -> str:
            told = super().__call__(request, timeout)
            self.unreported = 0  # its delay is short
            return told

    guest = Quick(cold=600 * MIB)
    pull(guest)
    assert [call["flush"] for call in guest.calls(SET_PAGE_REPORTING)] == [600 * MIB]


def test_a_kernel_without_flush_is_waited_for() -> None:
    guest = FakeGuest()
    guest.settable = ["order"]
    slept = guest.sleep

    def sleep(seconds: float) -> None:
        slept(seconds)
        if guest.unreported and guest.now > 5.0:
            guest.unreported = 0  # the guest's delay is over

    lever_sleep, guest.sleep = guest.sleep, sleep
    found = pull(guest)
    assert lever_sleep is not guest.sleep
    assert found.flushed is None
    assert found.returned == 600 * MIB
    assert guest.calls(SET_PAGE_REPORTING) == []


def test_what_ends_it_in_between_is_its_verdict_and_the_guest_is_asked_no_more() -> None:
    guest = FakeGuest()
    word = Verdict(Answer.FAILED, Reason.INTERRUPTED, "the agent was stopped")
    found = pull(guest, tell=lambda now: word if now.calls >= 2 else None)
    assert (found.state, found.stop, found.verdict) == (ReclaimState.FAILED, Stop.INTERRUPTED, word)
    assert found.reclaimed == 400 * MIB
    assert len(guest.calls()) == 2


def test_a_guest_that_falls_silent_keeps_what_was_counted() -> None:
    guest = FakeGuest()

    def tell(now: Reclaim) -> None:
        if now.calls == 1:
            guest.silent = 9

    found = pull(guest, tell=tell)
    assert (found.state, found.stop, found.verdict.reason) == (ReclaimState.FAILED, Stop.LOST, Reason.GUEST_TIMEOUT)
    assert found.reclaimed == 200 * MIB


@pytest.mark.parametrize(
    ("words", "answer", "reason"),
    [
        ("the kernel does not support reclaiming memory: there is no file", Answer.UNSUPPORTED, Reason.KERNEL),
        ("The command guest-reclaim-memory has not been found", Answer.UNSUPPORTED, Reason.GUEST_COMMAND),
        ("Command guest-reclaim-memory has been disabled", Answer.UNSUPPORTED, Reason.GUEST_BLOCKED),
        ("failed to reclaim memory: Input/output error", Answer.FAILED, Reason.GUEST_ANSWER),
    ],
)
def test_what_the_guest_says_no_with_is_told_apart(words: str, answer: Answer, reason: Reason) -> None:
    guest = FakeGuest()
    guest.refusal = words
    found = pull(guest)
    assert (found.verdict.answer, found.verdict.reason) == (answer, reason)


def test_a_guest_without_the_command_or_the_device_is_unsupported_and_not_off() -> None:
    lever, domain = CacheLever(), builders.domain_observation()
    stock = Capabilities("7.2", frozenset({"guest-info"}))
    bare = replace(domain, facts=builders.facts(reporting_offered=False))
    assert lever.read(domain, ABLE, None) is Observed.OFF
    assert lever.read(domain, stock, None) is Observed.UNSUPPORTED
    assert lever.read(bare, ABLE, None) is Observed.UNSUPPORTED
    assert lever.read(domain, None, None) is Observed.UNKNOWN
    assert lever.read(replace(domain, state=DomainState.SHUTOFF), ABLE, None) is Observed.UNKNOWN
    assert lever.probe(domain, stock).reason is Reason.GUEST_COMMAND


def test_what_the_guests_administrator_blocks_is_told_from_an_agent_too_old() -> None:
    lever, domain = CacheLever(), builders.domain_observation()
    info = frozenset({"guest-info"})
    found = lever.probe(domain, Capabilities("10.0", info, blocked=frozenset({RECLAIM_MEMORY, GET_MEMINFO})))
    assert (found.answer, found.reason) == (Answer.UNSUPPORTED, Reason.GUEST_BLOCKED)
    assert "blocked by the guest's administrator: allow guest-get-meminfo, guest-reclaim-memory in" in found.detail
    # An agent that is too old is to be replaced first, and what its administrator blocks is said as well.
    found = lever.probe(domain, Capabilities("7.2", info, blocked=frozenset({GET_MEMINFO})))
    assert found.reason is Reason.GUEST_COMMAND
    assert "has no guest-reclaim-memory" in found.detail
    assert "allow guest-get-meminfo" in found.detail


def test_reporting_that_is_off_would_bring_nothing_back() -> None:
    kernel = replace(builders.domain_observation().guest_kernel, enabled=False, settable=("enabled",))
    guest = FakeGuest()
    found = pull(guest, domain=builders.domain_observation(guest_kernel=kernel))
    assert (found.state, found.verdict.reason) == (ReclaimState.REFUSED, Reason.REPORTING_OFF)
    assert guest.calls() == []


@pytest.mark.parametrize("enabled", [True, False])
def test_a_guest_of_which_no_kernel_was_seen_lately_says_itself_whether_it_reports(enabled: bool) -> None:
    guest = FakeGuest()
    guest.enabled = enabled
    found = pull(guest, domain=builders.domain_observation(guest_kernel=None))
    assert (found.verdict.reason is Reason.REPORTING_OFF) is not enabled
    assert (guest.calls() == []) is not enabled


def test_a_guest_that_cannot_be_asked_is_no_failure_of_the_lever() -> None:
    def absent() -> Capabilities:
        raise GuestAgentAbsent("nobody listens")

    guest = FakeGuest()
    target = CacheTarget(builders.domain_observation(), effective({}), absent, guest.conversation, guest.footprint)
    found = CacheLever().pull(target, Reclaim(builders.reclaim_request()), lambda now: None)
    assert (found.state, found.verdict.reason) == (ReclaimState.REFUSED, Reason.NO_GUEST_AGENT)


def test_the_three_fields_follow_the_newest_request() -> None:
    lever, domain = CacheLever(), builders.domain_observation()
    idle = lever.state(domain, ABLE, None)
    assert (idle.desired, idle.observed, idle.verdict) == (IDLE, Observed.OFF, Verdict(Answer.UNCHANGED))
    running = Reclaim(builders.reclaim_request(size=512 * MIB), state=ReclaimState.RUNNING)
    state = lever.state(domain, ABLE, running)
    assert (state.desired, state.observed, state.verdict.answer) == ("reclaim 512 MiB", Observed.ON, Answer.PENDING)
    assert lever.state(domain, Capabilities("7.2", frozenset()), None).verdict.ok  # nothing is wished of it


def test_there_is_nothing_to_undo() -> None:
    assert CacheLever().undo().answer is Answer.UNCHANGED


def test_whoever_stops_it_at_its_end_does_not_wait_for_the_guests_delay() -> None:
    guest = FakeGuest()
    guest.settable = ["order"]
    word = Verdict(Answer.FAILED, Reason.INTERRUPTED, "the agent was stopped")
    found = pull(guest, tell=lambda now: word if not guest.cold else None)
    assert found.reclaimed == 600 * MIB
    assert found.verdict.answer is Answer.APPLIED  # the guest has done it all
    assert guest.now < 4.0
