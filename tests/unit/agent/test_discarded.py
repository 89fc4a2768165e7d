"""QEMU's counters on their way to the report: who is asked, how often, and what a failure leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.agent.balloon_reads import BalloonReads
from memhint.agent.discarded import Discarded
from memhint.objects.discarded import BALLOON_REPORTING, BalloonReporting
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.gap import GapReason
from memhint.objects.guest import GuestKernel, GuestSource
from memhint.objects.units import GIB, MIB
from memhint.virt.errors import CallTimeout, DeviceAbsent, MonitorCommandUnknown, VirtError
from tests.unit import builders

UUID = builders.WEB


class Qemus:
    """Every VM's monitor: counts what is asked, and answers or fails as told."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.discarded = 0
        self.error: VirtError | None = None
        self.asked: list[str] = []

    def monitor(self, uuid: str) -> Qemus:
        self.asked.append(uuid)
        return self

    def balloon_reporting(self, at: float) -> BalloonReporting:
        if self.error is not None:
            raise self.error
        return builders.balloon_reporting(self.discarded, at)

    def reads(self) -> BalloonReads:
        return BalloonReads(self.monitor, interval=10.0, max_age=60.0, wall=lambda: self.now)


def test_each_vm_is_read_once_in_an_interval_and_the_one_that_waits_longest_first() -> None:
    qemus = Qemus()
    reads = qemus.reads()
    reads.want({"a": "1:1", "b": "2:2"})
    assert reads.read_next(0.0) == reads.read_next(1.0) == 0.0
    assert reads.read_next(2.0) == 1.0
    assert sorted(qemus.asked) == ["a", "b"]
    reads.read_next(10.5)
    assert qemus.asked[2] == qemus.asked[0]
    assert reads.newest("a")[0] is not None
    assert reads.newest("c") == (None, None)


def test_a_qemu_that_does_not_count_is_asked_once_in_its_life() -> None:
    qemus = Qemus()
    qemus.error = MonitorCommandUnknown("no such command")
    reads = qemus.reads()
    reads.want({"a": "1:1"})
    for moment in range(0, 10_000, 100):
        reads.read_next(float(moment))
    assert len(qemus.asked) == 1
    reading, gap = reads.newest("a")
    assert reading is None
    assert gap is not None
    assert (gap.what, gap.reason) == (BALLOON_REPORTING, GapReason.UNSUPPORTED)
    reads.want({"a": "9:9"})  # started anew, maybe with another QEMU
    reads.read_next(20_000.0)
    assert len(qemus.asked) == 2


def test_a_reloaded_agent_goes_on_from_what_was_counted() -> None:
    qemus = Qemus()
    before, after = qemus.reads(), qemus.reads()
    before.want({"a": "1:1", "b": "2:2"})
    before.read_next(0.0)
    before.read_next(0.0)
    before.close()
    after.inherit(before)
    after.want({"a": "1:1", "b": "9:9"})  # b was started anew
    assert after.newest("a") == before.newest("a")
    assert after.newest("a")[0] is not None
    assert after.newest("b") == (None, None)
    after.read_next(1.0)
    assert after.read_next(1.0) > 0
    assert qemus.asked[2:] == ["b"]


def test_one_that_fails_is_left_alone_for_longer_and_keeps_its_last_reading_for_a_while() -> None:
    qemus = Qemus()
    reads = qemus.reads()
    reads.want({"a": "1:1"})
    reads.read_next(0.0)
    qemus.error = CallTimeout("it hangs")
    for moment in range(1, 400):
        reads.read_next(float(moment))
    assert len(qemus.asked) <= 7  # after 10, 20, 40, 80, 160 … seconds
    reading, gap = reads.newest("a")
    assert reading is not None
    assert gap is not None
    assert gap.reason is GapReason.TIMEOUT
    qemus.now += 61.0
    assert reads.newest("a")[0] is None
    qemus.error = DeviceAbsent("unplugged")
    reads.read_next(1000.0)
    assert reads.newest("a")[1].reason is GapReason.UNSUPPORTED  # type: ignore[union-attr]
    qemus.error = None  # plugged in again
    reads.read_next(2000.0)
    assert reads.newest("a")[0] is not None
    assert reads.newest("a")[1] is None


def test_a_reading_of_a_process_that_has_ended_meanwhile_is_dropped() -> None:
    qemus = Qemus()
    reads = qemus.reads()
    reads.want({"a": "1:1"})

    def answer(at: float) -> BalloonReporting:
        reads.want({"a": "2:2"})
        return builders.balloon_reporting(at=at)

    qemus.balloon_reporting = answer  # type: ignore[method-assign]
    reads.read_next(0.0)
    assert reads.newest("a") == (None, None)


def vm(lifetime: int, at: float, **changes: object) -> DomainObservation:
    word = builders.guest_memory(source=GuestSource.KERNEL, at=at, unreported=300 * MIB, lifetime_reported=lifetime)
    kernel = GuestKernel(at, boot_id="boot-1")
    return replace(builders.domain_observation(guest=word, guest_kernel=kernel), **changes)


class Stage:
    """Readings and cycles by hand, ten seconds apart."""

    def __init__(self) -> None:
        self.qemus = Qemus()
        self.reads = self.qemus.reads()
        self.joined = Discarded(self.reads, slack=2.0)
        self.clock = 0.0

    def cycle(self, discarded: int, lifetime: int, **changes: object) -> DomainObservation:
        self.qemus.now += 10.0
        self.clock += 10.0
        self.qemus.discarded = discarded
        self.reads.read_next(self.clock)
        return self.joined.join([vm(lifetime, self.qemus.now - 5.0, **changes)])[0]


def test_a_guest_that_tells_the_truth_agrees_and_keeps_its_word() -> None:
    stage = Stage()
    for step in range(6):
        seen = stage.cycle(step * GIB, step * GIB)
    assert seen.reporting_check is not None
    assert seen.reporting_check.agreement == "agrees"
    assert seen.balloon_reporting is not None
    assert seen.balloon_reporting.discarded.bytes == 5 * GIB
    assert seen.guest is not None
    assert seen.guest.clamped == ()
    assert seen.guest.lifetime_reported == 5 * GIB


def test_a_guest_that_lies_is_flagged_and_cut() -> None:
    stage = Stage()
    for step in range(6):
        seen = stage.cycle(100 * MIB, step * GIB)
    assert seen.reporting_check is not None
    assert seen.reporting_check.overclaims
    assert seen.guest is not None
    assert seen.guest.lifetime_reported == 2 * GIB  # its first claim of the pair, and nothing on top
    assert seen.guest.unreported is None
    assert "unreported" in seen.guest.clamped


def test_a_guest_that_lied_is_not_believed_again_by_a_reloaded_agent() -> None:
    stage = Stage()
    for step in range(6):
        stage.cycle(100 * MIB, step * GIB)
    before, stage.reads = stage.joined, stage.qemus.reads()
    stage.joined = Discarded(stage.reads, slack=2.0)
    stage.joined.inherit(before)
    seen = stage.cycle(100 * MIB, 6 * GIB)
    assert seen.reporting_check is not None
    assert seen.reporting_check.overclaims
    assert seen.guest is not None
    assert seen.guest.unreported is None


@pytest.mark.parametrize("changes", [{"state": DomainState.PAUSED}, {"process": None}])
def test_a_guest_that_lied_and_slept_for_a_while_is_not_believed_again(changes: dict[str, object]) -> None:
    """A guest can suspend itself, and have its clock wake it."""
    stage = Stage()
    for step in range(6):
        stage.cycle(100 * MIB, step * GIB)
    stage.cycle(100 * MIB, 5 * GIB, **changes)
    seen = stage.cycle(100 * MIB, 9 * GIB)
    assert seen.reporting_check is None or seen.reporting_check.overclaims
    seen = stage.cycle(100 * MIB, 9 * GIB)
    assert seen.reporting_check is not None
    assert seen.reporting_check.overclaims
    stage.cycle(100 * MIB, 0, process=None, state=DomainState.SHUTOFF)
    for _ in range(2):
        seen = stage.cycle(100 * MIB, 0)
    assert seen.reporting_check is not None
    assert not seen.reporting_check.overclaims


def test_only_vms_that_run_with_a_balloon_that_reports_are_asked() -> None:
    stage = Stage()
    for changes in (
        {"process": None},
        {"state": DomainState.PAUSED},
        {"facts": builders.facts(balloon=False)},
        {"facts": builders.facts(reporting_offered=False)},
    ):
        seen = stage.cycle(0, 0, **changes)
        assert seen.balloon_reporting is None
        assert seen.reporting_check is None
        assert seen.gaps == ()
    assert stage.qemus.asked == []


def test_a_gap_of_the_counters_stands_beside_the_others() -> None:
    stage = Stage()
    stage.qemus.error = MonitorCommandUnknown("no such command")
    stage.cycle(0, 0)
    seen = stage.cycle(0, 0)
    assert [(gap.what, gap.reason) for gap in seen.gaps] == [(BALLOON_REPORTING, GapReason.UNSUPPORTED)]
