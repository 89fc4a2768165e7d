"""The recycler lever: set where QEMU and guest have it, owned by a mark, and put back as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.levers.recycler import PACE_KNOB, RecyclerLever
from memhint.objects.discarded import BALLOON_REPORTING
from memhint.objects.domain import DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.lever import Observed
from memhint.objects.ownership import Mark
from memhint.objects.policy import Origin, effective
from memhint.objects.recycler import RecyclerPace, pace_of
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Reason
from memhint.virt.errors import LibvirtCallFailed
from tests.unit import builders

RESTS = RecyclerPace(0, 10_000, 256 * MIB)
WISH = 64 * MIB
WISHED = RecyclerPace(2, 500, WISH)


class Host:
    """One VM whose QEMU has a recycler, and the paces that it was given."""

    def __init__(self, **recycler: object) -> None:
        self.ledger = MemoryLedger()
        self.pace = RESTS
        self.written: list[RecyclerPace] = []
        self.broken = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.lever = self.successor()
        self.policy = effective({})
        counters = builders.balloon_reporting(recycler=builders.recycler_counters(**recycler))
        self.domain = builders.domain_observation(
            facts=builders.facts(reporting_offered=True), balloon_reporting=counters
        )
        self.runs = self.domain.process.instance

    def successor(self, *, allowed: bool = True) -> RecyclerLever:
        return RecyclerLever(
            self.ledger,
            lambda uuid: self,
            lambda: 1.0,
            lambda instance: instance == self.runs,
            workers=2,
            period_ms=500,
            allow_monitor_commands=allowed,
        )

    def starts_again(self) -> None:
        """Another QEMU, which is at rest."""
        process = self.domain.process
        assert process is not None
        self.domain = replace(self.domain, process=replace(process, pid=process.pid + 1))
        self.runs, self.pace = self.domain.process.instance, RESTS

    def read(self) -> RecyclerPace:
        if self.broken:
            raise LibvirtCallFailed("no monitor")
        return self.pace

    def write(self, pace: RecyclerPace) -> None:
        if self.broken:
            raise LibvirtCallFailed("no monitor")
        self.meanwhile()
        self.pace = pace
        self.written.append(pace)

    def pull(self, wish: int | None, *, dry_run: bool = False):
        return self.lever.pull(self.domain, self.policy, wish, dry_run=dry_run)


def test_it_sets_the_pace_once_and_puts_back_what_there_was() -> None:
    host = Host()
    assert host.pull(WISH).answer is Answer.APPLIED
    assert host.pull(WISH).answer is Answer.UNCHANGED
    assert host.pull(2 * WISH).answer is Answer.APPLIED
    assert host.pull(None).answer is Answer.APPLIED
    assert host.written == [WISHED, replace(WISHED, max_bytes=2 * WISH), RESTS]
    assert host.ledger.all() == ()
    assert host.pull(None).answer is Answer.UNCHANGED


def test_what_was_marked_and_not_done_is_done_by_the_next_pull_and_by_a_successor() -> None:
    host = Host()
    host.pull(WISH)
    host.broken = True
    assert host.pull(2 * WISH).reason is Reason.HYPERVISOR
    host.broken = False
    assert host.pull(2 * WISH).answer is Answer.APPLIED
    host.lever = host.successor()
    assert host.pull(2 * WISH).answer is Answer.APPLIED  # it cannot know whether its predecessor came that far
    assert host.pull(None).answer is Answer.APPLIED
    assert host.pace == RESTS


def reporting(host: Host, **kernel: object) -> None:
    """Have the guest's kernel say this of its reporting."""
    host.domain = replace(host.domain, guest_kernel=replace(builders.domain_observation().guest_kernel, **kernel))


def test_whole_blocks_are_given_back_too_while_the_guest_reports_none_and_the_order_is_put_back() -> None:
    host = Host()
    host.pace = first = replace(RESTS, leave_order=4)
    reporting(host, enabled=True)
    host.pull(WISH)
    assert host.pace == replace(WISHED, leave_order=4)
    reporting(host, enabled=False)
    verdict = host.pull(WISH)
    assert verdict.answer is Answer.APPLIED
    assert "whole blocks" in verdict.detail
    assert host.pace == replace(WISHED, leave_order=0)
    assert host.pull(WISH).answer is Answer.UNCHANGED
    host.lever = host.successor()
    host.pull(WISH)
    reporting(host, enabled=True)
    assert host.pull(WISH).answer is Answer.APPLIED
    assert host.pace == replace(WISHED, leave_order=4)
    reporting(host, enabled=False)
    host.pull(WISH)
    host.pull(None)
    assert (host.pace, host.ledger.all()) == (first, ())


@pytest.mark.parametrize(
    ("kernel", "order"),
    [
        ({"enabled": None, "order": 11}, 0),  # a stock kernel that was told to report no block there is
        ({"enabled": None, "order": 9}, 9),
        ({"enabled": None, "order": -1}, 9),
        ({"enabled": None, "order": None}, 9),  # not known is not off
    ],
)
def test_only_a_switch_that_was_read_says_that_a_guest_reports_nothing(kernel: dict[str, object], order: int) -> None:
    host = Host()
    reporting(host, **kernel)
    host.pull(WISH)
    assert host.pace.leave_order == order
    host = Host()
    host.domain = replace(host.domain, guest_kernel=None)
    host.pull(WISH)
    assert host.pace.leave_order == 9


def test_the_order_of_a_mark_from_before_it_was_set_is_what_qemu_begins_with() -> None:
    host = Host()
    reporting(host, enabled=False)
    instance = host.domain.process.instance
    host.ledger.put(Mark(host.domain.uuid, PACE_KNOB, "0 10000 268435456", "2 500 67108864", instance, 1.0))
    host.pace = WISHED
    host.pull(WISH)
    assert host.pace.leave_order == 0
    host.pull(None)
    assert host.pace == RESTS


def test_a_failure_to_put_back_keeps_the_mark() -> None:
    host = Host()
    host.pull(WISH)
    host.broken = True
    assert host.pull(None).answer is Answer.FAILED
    host.broken = False
    assert host.pull(None).answer is Answer.APPLIED
    assert (host.pace, host.ledger.all()) == (RESTS, ())


@pytest.mark.parametrize("theirs", [RecyclerPace(4, 100, 0), replace(WISHED, max_bytes=MIB)])
def test_a_pace_that_somebody_set_since_is_left_so(theirs: RecyclerPace) -> None:
    host = Host()
    host.pull(WISH)
    host.pace = theirs
    assert host.pull(2 * WISH).answer is Answer.CONFLICT
    assert len(host.ledger.all()) == 1, "one who has paused it is not taken for one who never touched it"
    assert host.pull(None).answer is Answer.CONFLICT
    assert (host.pace, host.ledger.all()) == (theirs, ())
    assert host.written == [WISHED]


@pytest.mark.parametrize("pulls", [1, 2, 3])
def test_a_pace_that_was_written_by_half_is_memhint_s(pulls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host()
    for number in range(1, pulls):
        host.pull(number * WISH)

    def half(pace: RecyclerPace) -> None:
        host.pace = replace(host.pace, period_ms=pace.period_ms, max_bytes=pace.max_bytes)
        raise LibvirtCallFailed("it hung")

    with monkeypatch.context() as patch:
        patch.setattr(host, "write", half)
        assert host.pull(pulls * WISH).answer is Answer.FAILED
        host.lever = host.successor()
        host.pull((pulls + 1) * WISH)
    assert host.pull(None).answer is Answer.APPLIED
    assert (host.pace, host.ledger.all()) == (RESTS, ())


def test_a_mark_that_cannot_be_read_puts_the_recycler_to_rest() -> None:
    host = Host()
    instance = host.domain.process.instance
    host.ledger.put(Mark(host.domain.uuid, PACE_KNOB, "fast", str(WISHED), instance, 1.0))
    assert host.pull(None).answer is Answer.APPLIED
    assert host.pace.workers == 0


def test_another_process_owes_nothing() -> None:
    host = Host()
    host.pull(WISH)
    host.starts_again()
    assert host.pull(None).answer is Answer.UNCHANGED
    assert host.written == [WISHED]


def test_what_a_qemu_was_told_that_ended_meanwhile_may_have_come_to_the_next_one() -> None:
    host = Host()
    host.meanwhile = host.starts_again
    host.pull(WISH)
    host.meanwhile = lambda: None
    told, host.domain = host.domain, replace(host.domain, balloon_reporting=None)
    assert host.pull(None).answer is Answer.PENDING, "it has not said what it does"
    host.domain = told
    assert host.pull(None).answer is Answer.APPLIED
    assert (host.pace, host.ledger.all()) == (RESTS, ())


@pytest.mark.parametrize("fails", [False, True])
def test_so_may_a_second_pace(fails: bool) -> None:
    """That the first one reached its process says nothing of it."""
    host = Host()
    host.pull(WISH)

    def meanwhile() -> None:
        host.starts_again()
        host.pace = replace(WISHED, max_bytes=2 * WISH)
        if fails:
            raise LibvirtCallFailed("late")

    host.meanwhile = meanwhile
    host.pull(2 * WISH)
    host.meanwhile = lambda: None
    assert host.pull(None).answer is Answer.APPLIED
    assert (host.pace, host.ledger.all()) == (RESTS, ())


def test_a_new_qemu_that_has_no_recycler_owes_nothing() -> None:
    host = Host()
    host.pull(WISH)
    host.lever = host.successor()
    host.starts_again()
    gaps = (Gap(BALLOON_REPORTING, GapReason.UNSUPPORTED),)
    host.domain = replace(host.domain, balloon_reporting=None, gaps=gaps)
    assert host.pull(None).answer is Answer.UNCHANGED
    assert (host.written, host.ledger.all()) == ([WISHED], ())


def test_a_qemu_that_has_ended_is_told_nothing() -> None:
    host = Host()
    host.runs = "another"
    assert host.pull(WISH).answer is Answer.PENDING
    assert (host.written, host.ledger.all()) == ([], ())


def test_the_mark_of_a_newer_process_outlives_an_old_look() -> None:
    host = Host()
    seen = host.domain
    host.starts_again()
    host.pull(WISH)
    marks, host.domain = host.ledger.all(), seen
    assert host.pull(None).answer is Answer.PENDING
    assert host.ledger.all() == marks != ()


def test_somebody_else_s_pace_is_a_conflict() -> None:
    host = Host()
    host.pace = RecyclerPace(4, 100, 0)
    assert host.pull(WISH).answer is Answer.CONFLICT
    assert (host.written, host.ledger.all()) == ([], ())


def test_a_dry_run_changes_nothing() -> None:
    host = Host()
    planned = host.pull(WISH, dry_run=True)
    assert planned.answer is Answer.PLANNED
    assert "huge pages" in planned.detail
    assert (host.written, host.ledger.all()) == ([], ())


def test_who_cannot_is_told_why() -> None:
    host = Host()
    without = builders.balloon_reporting(recycler=None)
    for changes, reason in (
        ({"state": DomainState.SHUTOFF}, Reason.NOT_RUNNING),
        ({"balloon_reporting": None}, Reason.DEVICE),
        ({"balloon_reporting": without}, Reason.DEVICE),
    ):
        host.domain = replace(Host().domain, **changes)
        verdict = host.pull(WISH)
        assert (verdict.answer, verdict.reason) == (Answer.UNSUPPORTED, reason)
        assert verdict.detail
    assert Host(negotiated=False).pull(WISH).reason is Reason.KERNEL
    host = Host()
    host.lever = host.successor(allowed=False)
    assert host.pull(WISH).reason is Reason.MONITOR_COMMANDS
    assert host.written == []


@pytest.mark.parametrize(
    ("recycler", "seen"),
    [
        ({"workers": 1}, Observed.ON),
        ({"workers": 0}, Observed.OFF),
        ({"workers": 1, "inhibited": "migration"}, Observed.OFF),
        ({"negotiated": False}, Observed.UNSUPPORTED),
    ],
)
def test_it_is_seen_as_it_is(recycler: dict[str, object], seen: Observed) -> None:
    host = Host(**recycler)
    assert host.lever.state(host.domain, host.policy, None, None).observed is seen


def test_what_qemu_forbids_for_now_is_said() -> None:
    host = Host(inhibited="migration")
    host.pull(WISH)
    verdict = host.pull(WISH)
    assert verdict.answer is Answer.PENDING
    assert "migration" in verdict.detail


def test_who_wants_none_of_it_is_shown_so() -> None:
    host = Host()
    policy = effective({Origin.OPERATOR: {"recycler": "off"}})
    state = host.lever.state(host.domain, policy, None, None)
    assert (state.desired, state.verdict.reason) == ("off", Reason.OPT_OUT)


def test_a_pace_is_spelt_in_one_way() -> None:
    assert pace_of(str(replace(WISHED, leave_order=4))) == replace(WISHED, leave_order=4)
    assert pace_of("2 500 7") == RecyclerPace(2, 500, 7, 9)  # as agents kept it that did not set the order
    for text in ("", "1 2", "1 2 3 4 5", "a b c"):
        with pytest.raises(ValueError, match=r".*"):
            pace_of(text)
