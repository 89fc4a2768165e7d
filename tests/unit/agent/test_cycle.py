"""The cycle on a fake host: what one VM or one part does wrong costs the others nothing."""

from __future__ import annotations

import json
import re
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from memhint.agent.deep_reads import _Kept
from memhint.agent.guests import UNDO_AT_ONCE
from memhint.agent.reclaimable import returned
from memhint.agent.runners.runner import LeverRunner
from memhint.guest.commands import GET_MEMINFO, RECLAIM_MEMORY
from memhint.guest.errors import GuestAgentAbsent
from memhint.kernel.errors import InterfaceUnreadable
from memhint.levers.balloon import BALLOON_KNOB
from memhint.levers.dedup_merge import MERGE_KNOB
from memhint.objects.domain import DeepMemory, DomainState
from memhint.objects.gap import GapReason
from memhint.objects.guest import GuestSource
from memhint.objects.ladder import Rung
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.ownership import HOST, Mark
from memhint.objects.plan import Bound, DemandReason
from memhint.objects.policy import Origin
from memhint.objects.tuning import Tuning
from memhint.objects.units import GIB, KIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.pages.samples import PageSamples
from memhint.planner.compaction import Lacking
from memhint.planner.dedup_auto import AutoState
from memhint.planner.dedup_estimate import KsmPace
from memhint.planner.demand import Past
from memhint.planner.growth import table_of
from memhint.planner.ladder import LadderState, RungState
from memhint.planner.levers.dedup import by_dedup
from memhint.planner.levers.reporting import by_reporting
from memhint.planner.relief.cache_asks import CacheAsks
from memhint.planner.relief.relieve import CALM, PRESSED
from memhint.store.errors import StoreError
from memhint.virt.domain_xml import Definition
from memhint.virt.errors import CallTimeout, DomainGone
from memhint.virt.stats import DomainStats
from tests.unit import builders
from tests.unit.agent.fake_host import SETTINGS, WAIT_S, FakeHost
from tests.unit.agent.views import asking, view_of
from tests.unit.guest.fake_agent import FakeAgent
from tests.unit.kernel import recorded

KSM_RUN = "sys/kernel/mm/ksm/run"
REPORTING = {  # a guest's files, where its kernel reports
    "/sys/module/page_reporting/parameters/page_reporting_order": "9\n",
    "/sys/bus/virtio/devices/virtio0/device": "0x0005\n",
    "/sys/bus/virtio/devices/virtio0/features": "0000010000\n",
    "/sys/bus/virtio/drivers/virtio_balloon/virtio0/device": "0x0005\n",
}


@pytest.fixture
def host(tmp_path) -> FakeHost:
    return FakeHost(tmp_path)


def by_name(report):
    return {one.observation.name: one for one in report.domains}


def test_a_cycle_observes_plans_and_publishes(host: FakeHost) -> None:
    report = host.run_cycles(3)
    assert host.recorder.reports[-1] is report
    assert report.sequence == 2
    web = by_name(report)["web"].observation
    assert web.guest.source is GuestSource.PROC
    assert web.guest.free == 3000000 * KIB
    assert web.process.pid == 4000
    assert report.plan.capacity.headroom > 0
    assert not report.gaps


def test_a_cycle_plans_by_the_newest_growth_table_and_says_which(host: FakeHost) -> None:
    before = host.run_cycles(3)
    assert before.growth == 0
    host.growth = table_of(7, [{(0, 0): (5, 5 * 90)}] * 4)
    report = host.run_cycles()
    assert report.growth == 7
    for one, was in zip(report.plan.demands, before.plan.demands, strict=True):
        assert one.growth == one.assigned * 90 // 100
        assert one.demand >= max(one.growth, was.demand)
    assert DemandReason.GROWTH in {one.reason for one in report.plan.demands}


@pytest.mark.parametrize("dedup", ["off", "on"])
def test_a_vm_that_dies_in_mid_cycle_costs_the_others_nothing(host: FakeHost, dedup: str) -> None:
    host.recorder.wishes = {"uuid-db": {Origin.OPERATOR: {"dedup": dedup, "project": "p1"}}}
    host.run_cycles()
    for name in ("status", "stat", "cmdline", "ksm_stat", "smaps_rollup", "numa_maps", "smaps"):
        path = host.root.path / f"proc/4001/{name}"
        path.unlink(missing_ok=True)
    report = host.run_cycles()
    dead = by_name(report)["db"].observation
    assert dead.process is None
    assert [gap.reason for gap in dead.gaps if gap.what == "process"]
    assert by_name(report)["web"].observation.process is not None
    demand = {one.uuid: one for one in report.plan.demands}
    assert demand["uuid-db"].reason is DemandReason.UNOBSERVED
    assert demand["uuid-db"].demand == demand["uuid-db"].assigned


def test_libvirt_that_hangs_leaves_the_last_list_and_promises_nominal(host: FakeHost) -> None:
    fresh = host.run_cycles(5).plan.capacity
    host.stats_error = CallTimeout("bulk statistics did not return within 2 s")
    report = host.run_cycles()
    assert [gap.reason for gap in report.gaps] == [GapReason.TIMEOUT]
    assert len(report.domains) == 3
    assert all(one.observation.process is not None for one in report.domains)
    assert report.plan.capacity.headroom <= max(fresh.headroom, report.plan.capacity.nominal_headroom())


def test_a_host_whose_vms_were_never_listed_promises_nothing(host: FakeHost) -> None:
    host.stats_error = CallTimeout("hangs")
    capacity = host.run_cycles(3).plan.capacity
    assert (capacity.headroom, capacity.bound) == (0, Bound.STALE)


def test_a_guest_that_came_to_rest_is_asked_at_once_and_once(host: FakeHost) -> None:
    host.run_cycles(2)
    domains, web = host.cycle._seen.domains, host.agents["uuid-web"]
    policies = {one.uuid: builders.policy() for one in domains}

    def asked(tuning: Tuning) -> bool:
        before = len(web.commands())
        host.guests.follow(domains, policies, {"uuid-web": tuning})
        return len(web.commands()) > before

    assert asked(Tuning(delay_ms=200))  # another wish
    assert not asked(Tuning(delay_ms=200, flush=True))
    assert asked(Tuning(delay_ms=200, flush=True, rests=1))
    assert not asked(Tuning(delay_ms=200, rests=1))


MERGING = AutoState(("uuid-web", "uuid-db"))


def remember_merging(host: FakeHost) -> None:
    """As an agent left it that was restarted, or reloaded."""
    host.cycle.state = replace(host.cycle.state, dedup_auto=MERGING, dedup_project="p1")
    for uuid in MERGING.members:
        host.ledger.put(Mark(uuid, MERGE_KNOB, "false", "true", "an earlier look's", 1.0))


def merging(host: FakeHost) -> tuple[AutoState, str | None, int]:
    assert host.dedup.settle(WAIT_S)
    state = host.cycle.state
    return state.dedup_auto, state.dedup_project, sum(mark.knob == MERGE_KNOB for mark in host.ledger.all())


def test_an_agent_that_is_stopped_before_its_first_look_has_ksm_rest_that_the_one_before_it_left_running(
    host: FakeHost,
) -> None:
    host.root.write(KSM_RUN, "1\n")
    host.ledger.put(Mark(HOST, "run", "0", "1", "boot", 1.0))
    (left,) = host.cycle.undo(WAIT_S)
    assert left == "this agent has not looked at its host yet; the marks are kept for the next start"
    assert host.root.text(KSM_RUN) == "0\n"
    assert host.ledger.get(HOST, "run") is not None


def test_ksm_of_somebody_else_goes_on_when_an_agent_is_stopped_before_its_first_look(host: FakeHost) -> None:
    host.root.write(KSM_RUN, "1\n")
    assert host.cycle.undo(WAIT_S) == []
    assert host.root.text(KSM_RUN) == "1\n"


def test_before_libvirt_answers_nothing_is_forgotten_or_taken_back(host: FakeHost) -> None:
    remember_merging(host)
    before = host.cycle.state
    host.stats_error = CallTimeout("hangs")
    host.run_cycles(2)
    now = host.cycle.state
    # Only how old it is goes on, what is promised, and the ladder.
    assert replace(now, at=before.at, headroom=before.headroom, ladder=before.ladder) == before
    assert (now.at, now.headroom) == (1010.0, 0)
    assert merging(host) == (MERGING, "p1", 2)
    assert "libvirt has not said" in host.cycle.undo(10.0)[0]
    assert merging(host) == (MERGING, "p1", 2)
    host.stats_error = None
    host.run_cycles()
    # What was remembered is of other processes, and nobody asks for merging.
    assert merging(host) == (AutoState(), None, 0)


def test_nothing_is_done_to_a_vm_of_which_nobody_knows_what_it_is(host: FakeHost) -> None:
    remember_merging(host)
    host.recorder.wishes = {uuid: {Origin.OPERATOR: {"dedup": "on"}} for uuid in ("uuid-web", "uuid-old")}
    host.definitions.missing = {"uuid-db"}
    report = host.run_cycles(2)
    assert set(by_name(report)) == {"web", "db", "old"}
    assert host.cycle.state.past
    assert merging(host) == (MERGING, "p1", 2)
    assert host.agents["uuid-db"].commands() == []
    assert host.agents["uuid-web"].commands()
    web = next(one for one in by_name(report)["web"].levers if one.lever is LeverName.DEDUP)
    assert (web.verdict.answer, web.verdict.reason) == (Answer.REFUSED, Reason.NOT_VERIFIED)
    own = next(one for one in report.levers if one.lever is LeverName.DEDUP)
    assert "the definition of db cannot be read" in own.verdict.detail
    assert "db" not in web.verdict.detail  # whose VM this is does not read what others are called
    assert not [one for one in report.plan.actions if one.lever is LeverName.DEDUP]
    host.definitions.missing = set()
    host.run_cycles()
    assert merging(host)[2] == 0
    assert host.agents["uuid-db"].commands()


def test_a_reloaded_agent_knows_the_vms_of_the_one_before(host: FakeHost, tmp_path) -> None:
    host.run_cycles(2)
    (tmp_path / "next").mkdir()
    after = FakeHost(tmp_path / "next")
    after.now = host.now
    after.stats_error = CallTimeout("hangs")
    after.cycle._parts.observer.inherit(host.cycle._parts.observer)
    after.cycle.inherit(host.cycle)
    after.cycle.state = host.cycle.state
    report = after.run_cycles()
    assert set(by_name(report)) == {"web", "db", "old"}


def test_a_reloaded_agent_goes_on_counting_zero_pages_that_walks_of_page_tables_found(host: FakeHost, tmp_path) -> None:
    report = host.run_cycles()
    bare = report.plan.capacity.footprint
    for uuid, process in host.cycle._parts.deep._wanted.items():
        host.cycle._parts.deep._kept[uuid] = _Kept(process.instance, DeepMemory(1.0, GIB, GIB, 0, zero_other=GIB))
    before = host.run_cycles()
    assert before.plan.capacity.footprint == bare + 3 * GIB
    (tmp_path / "next").mkdir()
    after = FakeHost(tmp_path / "next")
    after.now = host.now
    after.cycle._parts.observer.inherit(host.cycle._parts.observer)
    after.cycle.inherit(host.cycle)
    after.cycle.state = host.cycle.state
    assert after.run_cycles().plan.capacity.footprint == before.plan.capacity.footprint


def test_an_agent_that_saw_no_vm_and_changed_nothing_ends_well(host: FakeHost) -> None:
    host.stats_error = CallTimeout("hangs")
    host.run_cycles()
    assert host.cycle.undo(WAIT_S) == []


def test_one_that_is_off_keeps_nobody_waiting(host: FakeHost) -> None:
    remember_merging(host)
    host.definitions.missing = {"uuid-old"}
    host.listed[2] = replace(host.listed[2], state=DomainState.SHUTOFF)
    host.run_cycles()
    assert merging(host) == (AutoState(), None, 0)


def test_a_list_that_is_older_than_three_periods_promises_nothing(host: FakeHost) -> None:
    host.run_cycles(3)
    host.stats_error = CallTimeout("hangs")
    assert host.run_cycles(3).plan.capacity.headroom > 0
    assert host.run_cycles(1).plan.capacity.headroom == 0


def test_nothing_merges_by_a_list_that_is_older_than_three_periods(host: FakeHost) -> None:
    """VMs may have started since, and QEMU marks all of their memory."""
    remember_merging(host)
    host.recorder.wishes = {uuid: {Origin.OPERATOR: {"dedup": "on"}} for uuid in MERGING.members}
    host.run_cycles()
    host.stats_error = CallTimeout("hangs")
    for cycles, held in ((3, False), (1, True)):
        web = by_name(host.run_cycles(cycles))["web"]
        (state,) = (one for one in web.levers if one.lever is LeverName.DEDUP)
        assert ("for a while" in state.verdict.detail) is held
    host.stats_error = None
    assert "for a while" not in str(host.run_cycles())


def test_a_vm_of_unknown_size_promises_nothing(host: FakeHost) -> None:
    host.run_cycles(3)
    host.definitions.missing = {"uuid-old"}
    host.listed[2] = DomainStats("uuid-old", "old", DomainState.RUNNING, {})
    assert host.run_cycles(1).plan.capacity.headroom == 0


def test_a_vm_without_a_definition_counts_with_what_libvirt_says_of_its_size(host: FakeHost) -> None:
    host.definitions.missing = {"uuid-old"}
    report = host.run_cycles()
    old = by_name(report)["old"].observation
    assert old.facts.memory == 4 * GIB
    assert any(gap.what == "definition" for gap in old.gaps)


def test_a_vm_whose_definition_cannot_be_read_again_counts_with_its_size_of_now(host: FakeHost) -> None:
    host.run_cycles(5)
    host.definitions.kept = {"uuid-old"}
    host.listed[2] = replace(host.listed[2], balloon={"balloon.maximum": 6 * GIB // KIB})
    report = host.run_cycles()
    assert by_name(report)["old"].observation.facts.memory == 6 * GIB
    capacity = report.plan.capacity
    assert capacity.headroom <= max(0, capacity.nominal_headroom())
    host.definitions.kept = set()
    assert by_name(host.run_cycles())["old"].observation.facts.memory == 4 * GIB


def test_a_vm_in_another_state_has_its_definition_read_again(host: FakeHost) -> None:
    host.run_cycles(2)
    assert host.definitions.invalid == []
    host.listed[2] = replace(host.listed[2], state=DomainState.PAUSED)
    host.run_cycles(2)
    assert host.definitions.invalid == ["uuid-old"]


def test_a_vm_that_went_since_it_was_listed_is_none_and_costs_no_capacity(host: FakeHost) -> None:
    before = host.run_cycles(5).plan.capacity.headroom
    host.definitions.missing, host.definitions.error = {"uuid-old"}, DomainGone("no such domain")
    report = host.run_cycles()
    assert set(by_name(report)) == {"web", "db"}
    assert report.plan.capacity.headroom >= before > 0


def test_a_hung_guest_is_a_gap_and_the_others_are_read(host: FakeHost) -> None:
    host.agents["uuid-db"].hang_at = {"guest-info"}
    report = host.run_cycles(2)
    db, web = by_name(report)["db"], by_name(report)["web"]
    assert db.observation.guest is None
    assert any(gap.reason is GapReason.TIMEOUT for gap in db.observation.gaps)
    assert web.observation.guest is not None


@pytest.mark.parametrize(
    "answer",
    [
        "\x00\xff garbage",
        json.dumps({"return": "x" * 1_000_000}),
        '{"return": ' + "[" * 1_000_000,
        json.dumps({"return": {"version": 7, "supported_commands": 1e300}}),
    ],
)
def test_a_guest_that_answers_nonsense_is_a_gap(host: FakeHost, answer: str) -> None:
    host.agents["uuid-db"].mangle = lambda command, raw: answer
    report = host.run_cycles(2)
    assert by_name(report)["db"].observation.guest is None
    assert by_name(report)["db"].observation.gaps
    assert by_name(report)["web"].observation.guest is not None


def test_a_guest_that_claims_more_than_it_was_given_is_clamped_and_gains_nothing(tmp_path) -> None:
    honest, lying = FakeHost(tmp_path / "a"), None
    (tmp_path / "b").mkdir()
    lying = FakeHost(tmp_path / "b")
    lying.agents["uuid-db"].files["/proc/meminfo"] = (
        "MemTotal: 999999999999 kB\nMemFree: 999999999999 kB\nMemAvailable: 999999999999 kB\nCached: 0 kB\n"
    )
    told, lied = honest.run_cycles(5), lying.run_cycles(5)
    guest = by_name(lied)["db"].observation.guest
    assert guest.free <= 4 * GIB
    assert "free" in guest.clamped
    assert lied.plan.capacity == told.plan.capacity


def test_without_its_store_the_agent_goes_on(host: FakeHost) -> None:
    host.run_cycles()
    host.recorder.failing = True
    report = host.run_cycles(2)
    assert report.sequence == 2
    assert [gap.what for gap in report.gaps] == ["policies"]


def test_a_vm_with_a_wish_that_cannot_be_read_counts_in_full_and_nothing_is_done_to_it(host: FakeHost) -> None:
    host.recorder.wishes = {
        uuid: {Origin.OPERATOR: {"reporting": "off", "guest_actions": "allow"}} for uuid in ("uuid-db", "uuid-web")
    }
    host.recorder.unreadable = {"uuid-db": "the stored policy class=perhaps (operator) of uuid-db does not exist"}
    report = host.run_cycles(3)
    demands = {one.uuid: one for one in report.plan.demands}
    assert (demands["uuid-db"].demand, demands["uuid-db"].reason) == (
        demands["uuid-db"].assigned,
        DemandReason.EXCLUDED,
    )
    assert demands["uuid-web"].reason is DemandReason.FORECAST
    assert "policy" in [gap.what for gap in by_name(report)["db"].observation.gaps]
    assert not any(gap.what == "policy" for gap in by_name(report)["web"].observation.gaps)
    assert not host.agents["uuid-db"].calls
    assert host.agents["uuid-web"].calls


def test_an_agent_that_starts_without_its_store_promises_nothing_of_what_it_cannot_know(host: FakeHost) -> None:
    host.recorder.failing = True
    report = host.run_cycles(3)
    assert {one.reason for one in report.plan.demands} == {DemandReason.EXCLUDED}
    host.recorder.failing = False
    assert {one.reason for one in host.run_cycles(2).plan.demands} == {DemandReason.FORECAST}


def test_what_was_done_is_recorded_though_another_pass_came_over_it_before_the_report(host: FakeHost) -> None:
    host.run_cycles()
    done = builders.lever_state(subject="uuid-db", desired="off", verdict=Verdict(Answer.APPLIED))
    host.applied.note(done)
    host.recorder.events.clear()
    report = host.run_cycles()
    assert by_name(report)["db"].levers[0].verdict != done.verdict
    assert host.recorder.events == [done]
    host.run_cycles()
    assert host.recorder.events == [done]


def test_no_action_is_lost_where_the_record_of_the_one_before_it_fails(host: FakeHost) -> None:
    host.run_cycles()
    kept: list[float] = []

    class Refusing:
        def record(self, name, at, states) -> None:
            kept.append(at)
            raise StoreError("database is locked")

        def queue(self, name, at, states) -> None:
            kept.append(at)

    host.cycle._news._audit = Refusing()
    for number in range(3):
        host.now += 1
        detail = f"pull {number}"
        host.applied.note(builders.lever_state(subject="uuid-db", verdict=Verdict(Answer.APPLIED, detail=detail)))
    host.run_cycles()
    assert len(kept) == 3


def test_a_guest_that_is_too_slow_at_first_is_not_one_without_an_agent(host: FakeHost) -> None:
    host.recorder.wishes = {"uuid-db": {Origin.OPERATOR: {"reporting": "off", "guest_actions": "allow"}}}
    host.agents["uuid-db"].hang_at = {"guest-info"}
    report = host.run_cycles(2)
    (reporting,) = (one for one in by_name(report)["db"].levers if one.lever is LeverName.REPORTING)
    assert (reporting.verdict.answer, reporting.verdict.reason) == (Answer.PENDING, Reason.GUEST_TIMEOUT)


def test_a_verdict_is_recorded_once_and_again_when_it_changes(host: FakeHost) -> None:
    host.run_cycles(3)
    before = len(host.recorder.events)
    host.run_cycles(3)
    assert len(host.recorder.events) == before


def test_a_guest_agent_that_comes_back_is_asked_at_once(host: FakeHost) -> None:
    agent = host.agents["uuid-db"]
    agent.hang_at = {"guest-info"}
    host.run_cycles(2)
    agent.hang_at = set()
    host.guests.changed("uuid-db")
    host.run_cycles()
    host.now -= 9.0
    assert by_name(host.run_cycles())["db"].observation.guest is not None


def test_what_a_guest_said_of_its_kernel_is_known_no_longer_than_its_max_age(host: FakeHost) -> None:
    agent = host.agents["uuid-db"]
    agent.files |= REPORTING

    def seen() -> tuple[bool, Observed, list[GapReason]]:
        one = by_name(host.run_cycles())["db"]
        (observed,) = (found.observed for found in one.levers if found.lever is LeverName.REPORTING)
        gaps = [gap.reason for gap in one.observation.gaps if gap.what == "guest kernel"]
        return one.observation.guest_kernel is not None, observed, gaps

    host.run_cycles(2)
    assert seen() == (True, Observed.ON, [])
    said = host.now - 10.0
    agent.hang_at = {"guest-info", "guest-file-open"}
    host.now = said + 60.0
    assert seen() == (True, Observed.ON, [])
    host.now = said + 61.0
    assert seen() == (False, Observed.UNKNOWN, [GapReason.TIMEOUT])
    agent.hang_at = set()
    host.guests.changed("uuid-db")
    host.run_cycles()
    assert seen() == (True, Observed.ON, [])


def test_a_vm_of_a_system_that_cannot_report_counts_in_full_though_its_guest_fell_silent(host: FakeHost) -> None:
    host.agents["uuid-db"].release = "4.19.0-27-amd64"
    host.guests.changed_unseen()
    before = host.run_cycles(2)
    host.agents["uuid-db"].hang_at = {"guest-info", "guest-file-open"}
    host.now += 7 * 86400.0
    after = host.run_cycles(2)
    for report in (before, after):
        (demand,) = (one for one in report.plan.demands if one.uuid == "uuid-db")
        assert (demand.reason, demand.demand) == (DemandReason.EXCLUDED, demand.assigned)
    kernel = by_name(after)["db"].observation.guest_kernel
    assert (kernel.boot_id, kernel.order) == (None, None)


def test_what_a_guest_said_before_its_vm_was_started_again_is_not_its_word_now(host: FakeHost) -> None:
    assert by_name(host.run_cycles(2))["db"].observation.guest is not None
    host.agents["uuid-db"].hang_at = {"guest-info"}  # it boots
    host.root.process(5001, cmdline="qemu\0-uuid\0uuid-db\0")
    (host.run / "db.pid").write_text("5001")
    shutil.rmtree(host.root.path / "proc/4001")
    for _ in range(2):
        seen = by_name(host.run_cycles())["db"].observation
        assert seen.process is not None
        assert seen.process.pid == 5001
        assert (seen.guest, seen.guest_kernel) == (None, None)
    host.agents["uuid-db"].hang_at = set()
    host.guests.changed("uuid-db")
    assert by_name(host.run_cycles(2))["db"].observation.guest is not None


def test_after_events_may_have_been_lost_guests_are_asked_anew_what_they_can(host: FakeHost) -> None:
    host.run_cycles(2)
    assert host.guests.capabilities("uuid-db") is not None
    host.guests.changed_unseen()
    assert host.guests.capabilities("uuid-db") is None
    boot = "/proc/sys/kernel/random/boot_id"
    host.agents["uuid-db"].files[boot] = "99999999-2222-3333-4444-555555555555\n"
    host.run_cycles(2)
    found = host.guests.capabilities("uuid-db")
    assert found is not None
    assert found.boot_id.startswith("99999999")


def test_zeros_that_a_split_took_away_stay_in_the_footprint(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    before = by_name(host.run_cycles(2))["db"].observation
    monkeypatch.setattr("memhint.kernel.smaps.zero_mapped", lambda root, pid, page_size: 300 * MIB)
    deep = host.cycle._parts.deep
    while deep.read_next(host.now) != 1.0:
        pass
    report = host.run_cycles()
    after = by_name(report)["db"].observation
    assert (after.process.zero_other, after.deep.zero_other) == (300 * MIB, 300 * MIB)
    assert after.footprint == before.footprint + 300 * MIB
    assert next(one for one in report.plan.demands if one.uuid == "uuid-db").footprint == after.footprint
    # What was read is older than what is resident: together they are no more than the VM can have.
    monkeypatch.setattr("memhint.kernel.smaps.zero_mapped", lambda root, pid, page_size: 1 << 44)
    while deep.read_next(host.now + 3600) != 1.0:
        pass
    after = by_name(host.run_cycles())["db"].observation
    assert after.footprint == max(before.footprint, after.facts.memory + 128 * MIB)


def test_returned_is_what_came_back_since_the_peak() -> None:
    domain = builders.domain_observation(process=builders.process(rss=1 * GIB, swap=0, ksm_zero=0))
    past = Past(domain.process.instance, 0.0, 3.0 * GIB, 0.0, 3 * GIB)
    assert returned(domain, past) == 2 * GIB
    assert returned(domain, None) is None


def test_reclaimable_is_unknown_where_nobody_says_and_bounded_where_somebody_does() -> None:
    domain = builders.domain_observation(
        process=builders.process(rss=2000 * MIB), guest=builders.guest_memory(total=4000 * MIB, free=3000 * MIB)
    )
    assert by_reporting(domain).at_most == 1000 * MIB
    silent = builders.domain_observation(guest=None)
    assert by_reporting(silent).at_most is None
    exact = builders.domain_observation(guest=builders.guest_memory(unreported=7 * MIB))
    assert by_reporting(exact).at_most == 7 * MIB


def test_the_dedup_lever_says_why_it_does_nothing(host: FakeHost) -> None:
    report = host.run_cycles(2)
    assert report.levers[0].verdict.answer in (Answer.UNCHANGED, Answer.PENDING)


def told_to_stop_reporting(host: FakeHost):
    """The agent of a guest that was told so, by its module's parameter: memhint has something to put back there."""
    agent = host.agents["uuid-db"]
    agent.files |= REPORTING
    agent.release = "6.1.0-50-cloud-amd64"
    host.definitions.known["uuid-db"] = Definition(
        builders.facts(memory=4 * GIB, policy={"reporting": "off", "guest_actions": "allow"})
    )
    host.recorder.replace = lambda uuid, origin, values: None
    host.run_cycles(2)
    return agent


def test_a_guest_that_falls_silent_while_stopping_is_said_to_be_left(host: FakeHost) -> None:
    agent = told_to_stop_reporting(host)
    assert agent.files["/sys/module/page_reporting/parameters/page_reporting_order"].strip() == "11"
    agent.hang_at = {"guest-file-open"}
    left = host.cycle.undo(deadline=5.0)
    assert len(left) == 1
    assert "uuid-db" in left[0]
    agent.hang_at = set()
    assert host.cycle.undo(WAIT_S) == []
    assert agent.files["/sys/module/page_reporting/parameters/page_reporting_order"].strip() == "9"


@pytest.mark.parametrize("lacking", [1, UNDO_AT_ONCE])
def test_where_threads_are_lacking_those_that_there_are_put_it_back(
    host: FakeHost, lacking: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = told_to_stop_reporting(host)
    no_threads(monkeypatch, "undo", lacking)
    left = host.cycle.undo(WAIT_S)
    order = agent.files["/sys/module/page_reporting/parameters/page_reporting_order"].strip()
    if lacking == UNDO_AT_ONCE:
        assert (order, left) == ("11", ["reporting of uuid-db: failed (kernel): can't start new thread"])
    else:
        assert (order, left) == ("9", [])


def test_a_host_whose_vms_are_not_seen_does_not_admit(host: FakeHost) -> None:
    host.stats_error = CallTimeout("hangs")
    assert not host.run_cycles(1).plan.pressure.admitting


def test_a_conversation_under_way_does_not_pull_again_what_stopping_put_back(host: FakeHost) -> None:
    agent = host.agents["uuid-db"]
    order = "/sys/module/page_reporting/parameters/page_reporting_order"
    agent.files.update(
        {
            order: "9\n",
            "/sys/bus/virtio/devices/virtio0/device": "0x0005\n",
            "/sys/bus/virtio/devices/virtio0/features": "0000010000\n",
            "/sys/bus/virtio/drivers/virtio_balloon/virtio0/device": "0x0005\n",
        }
    )
    agent.release = "6.1.0-50-cloud-amd64"
    host.definitions.known["uuid-db"] = Definition(
        builders.facts(memory=4 * GIB, policy={"reporting": "off", "guest_actions": "allow"})
    )
    host.recorder.replace = lambda uuid, origin, values: None
    host.run_cycles(2)
    held = []
    host.guests._poller._start = held.append  # conversations that have begun, and go on only when called
    host.now += 10.0
    host.cycle.run()
    assert host.cycle.undo(WAIT_S) == []
    assert agent.files[order].strip() == "9"
    for conversation in held:
        conversation()
    assert agent.files[order].strip() == "9"


def short_of_memory(host: FakeHost, available: int = GIB) -> None:
    host.root.write(
        "proc/meminfo",
        f"MemTotal: {64 * GIB // KIB} kB\nMemFree: {available // KIB} kB\nMemAvailable: {available // KIB} kB\n",
    )


def test_between_cycles_a_host_is_no_shorter_of_memory_than_in_one_for_what_its_pools_of_huge_pages_hold(
    host: FakeHost,
) -> None:
    pool = "sys/kernel/mm/hugepages/hugepages-2048kB"
    host.root.write(f"{pool}/nr_hugepages", f"{56 * GIB // (2 * MIB)}\n").write(f"{pool}/free_hugepages", "0\n")
    available = int(1.75 * GIB)  # 2.7 % of all memory, and 22 % of what others than those pools share
    host.root.write(
        "proc/meminfo",
        f"MemTotal: {64 * GIB // KIB} kB\nMemFree: {available // KIB} kB\nMemAvailable: {available // KIB} kB\n",
    )
    report = host.run_cycles(3)
    assert not report.plan.rungs
    assert not host.cycle.alarmed()


def test_vms_that_wait_in_vain_for_huge_pages_have_a_cycle_begin_early(host: FakeHost) -> None:
    def fails(more: int) -> None:
        def count(seen: re.Match[str]) -> str:
            return f"compact_{seen[1]} {int(seen[2]) + more}"

        host.root.write("proc/vmstat", re.sub(r"compact_(stall|fail) (\d+)", count, recorded.VMSTAT))

    fails(0)
    host.root.write("proc/buddyinfo", "Node 0, zone Normal 9 9 9 9 9 9 9 9 9 0 0\n")
    host.run_cycles(2)
    assert not host.cycle.alarmed()
    fails(1)
    assert not host.cycle.alarmed()
    fails(2)
    assert host.cycle.alarmed()
    host.run_cycles(1)
    assert host.cycle.state.compaction.vain
    fails(9)
    assert not host.cycle.alarmed()  # seen by now
    host.run_cycles(1)
    host.cycle.state = replace(host.cycle.state, compaction=replace(host.cycle.state.compaction, rest=0.0))
    host.root.remove("proc/vmstat")
    assert not host.cycle.alarmed()


def test_where_huge_pages_are_free_nobody_looks_at_who_waits(host: FakeHost) -> None:
    host.root.write("proc/buddyinfo", "Node 0, zone Normal 0 0 0 0 0 0 0 0 0 0 99999\n")
    host.run_cycles(2)
    host.root.write("proc/vmstat", recorded.VMSTAT)
    host.run_cycles(1)
    host.root.write("proc/vmstat", re.sub(r"compact_(stall|fail) \d+", r"compact_\1 99999", recorded.VMSTAT))
    assert host.cycle.state.compaction.lacking is Lacking.NOWHERE
    assert not host.cycle.alarmed()


def test_a_host_that_runs_short_climbs_and_says_whom_to_move(host: FakeHost) -> None:
    host.run_cycles(2)
    assert not host.cycle.alarmed()
    short_of_memory(host)
    assert host.cycle.alarmed()
    report = host.run_cycles(12)
    assert not host.cycle.alarmed()  # seen by now
    assert [one.rung for one in report.plan.rungs] == list(Rung)
    assert not report.plan.pressure.admitting
    assert report.plan.capacity.headroom == 0
    (asked,) = [state for state in host.recorder.events if state.lever is LeverName.MIGRATION]
    assert asked.verdict.reason is Reason.PRESSURE


def test_an_idle_best_effort_vm_is_ballooned_under_pressure_and_gets_it_back(host: FakeHost) -> None:
    policy = {"class": "best-effort", "balloon": "allow", "min_mb": "1024"}
    facts = builders.facts(memory=4 * GIB, policy=policy, deflate_on_oom=True, balloon=True)
    host.definitions.known["uuid-db"] = Definition(facts)
    host.recorder.replace = lambda uuid, origin, values: None
    host.run_cycles(2)
    short_of_memory(host)
    host.run_cycles(14)
    (uuid, size) = host.balloons[0]
    assert uuid == "uuid-db"
    assert size < 4 * GIB
    report = host.run_cycles(1)
    (state,) = [state for one in report.domains for state in one.levers if state.lever is LeverName.BALLOON]
    assert state.verdict.ok
    assert host.cycle.undo(WAIT_S) == []
    assert host.balloons[-1] == ("uuid-db", 4 * GIB)


class Broken(LeverRunner):
    """A lever that fails as it is undone, in a way that nobody foresaw."""

    names = (LeverName.THP,)

    def pull(self, view, planned) -> None:
        pass

    def undo(self, view, deadline):
        raise InterfaceUnreadable("/proc/1/stat", "Input/output error")


def test_a_lever_that_cannot_be_undone_keeps_no_other_from_it_and_is_named(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, more=lambda note: (Broken(),))
    host.run_cycles(1)
    (instance,) = [one.process.instance for one in host.cycle._seen.domains if one.uuid == "uuid-web"]
    host.ledger.put(Mark("uuid-web", BALLOON_KNOB, str(4 * GIB), str(2 * GIB), instance, 1.0))
    assert host.cycle.undo(WAIT_S) == ["thp: InterfaceUnreadable: /proc/1/stat: Input/output error"]
    assert host.balloons == [("uuid-web", 4 * GIB)]


def test_a_store_that_is_away_as_an_agent_ends_that_saw_no_vm_is_named(host: FakeHost, monkeypatch) -> None:
    host.stats_error = CallTimeout("hangs")
    host.run_cycles(1)
    monkeypatch.setattr(host.ledger, "all", lambda: (_ for _ in ()).throw(StoreError("the disk is full")))
    left = host.cycle.undo(WAIT_S)
    assert "qos: the disk is full" in left
    assert "what is left is not known: the disk is full" in left


def test_an_agent_that_ends_before_it_looked_at_its_host_says_what_stays_as_it_is(host: FakeHost) -> None:
    assert host.cycle.undo(WAIT_S) == []
    host.ledger.put(Mark("uuid-web", BALLOON_KNOB, str(4 * GIB), str(2 * GIB), "1-2", 1.0))
    assert host.cycle.undo(WAIT_S) == [
        "this agent has not looked at its host yet; the marks are kept for the next start"
    ]
    assert host.balloons == []


def no_threads(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> None:
    """Of this name none can be started, for so many times."""
    left = [name] * times
    real = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if self.name in left:
            left.remove(self.name)
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.parametrize("name", ["dedup", "balloon"])
def test_a_pass_for_which_there_is_no_thread_is_begun_by_the_next_cycle(
    host: FakeHost, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_threads(monkeypatch, name, 1)
    report = host.run_cycles(1)
    assert host.recorder.reports == [report]
    (runner,) = [one for one in host.cycle._parts.runners if name in one.names]
    assert runner.settle(0.0)
    begun: list[bool] = []
    first = "knows" if name == "dedup" else "owned"  # what a pass asks of the lever before all else
    monkeypatch.setattr(runner._lever, first, lambda *_: begun.append(True) or {})
    host.cycle.run()
    assert runner.settle(WAIT_S)
    assert begun == [True]


@pytest.mark.parametrize("name", ["dedup", "balloon"])
def test_where_there_is_no_thread_to_put_back_it_is_named(
    host: FakeHost, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.run_cycles(2)
    no_threads(monkeypatch, name, 1)
    (left,) = host.cycle.undo(WAIT_S)
    assert left.startswith(name)
    assert "no thread could be started" in left
    assert host.cycle.undo(WAIT_S) == []


def of_cache(report, name: str):
    domain = by_name(report)[name]
    (lever,) = (one for one in domain.levers if one.lever is LeverName.CACHE)
    (size,) = (one for one in domain.reclaimable if one.lever is LeverName.CACHE)
    return lever, size


def test_what_a_guests_administrator_blocks_is_said_where_the_switch_would_be(host: FakeHost) -> None:
    host.agents["uuid-web"].blocked |= {"guest-file-open", "guest-file-read"}
    host.recorder.wishes = {"uuid-web": {Origin.OPERATOR: {"reporting": "off", "guest_actions": "allow"}}}
    report = host.run_cycles(2)
    domain = by_name(report)["web"]
    words = "blocked by the guest's administrator: allow guest-file-open, guest-file-read in the agent's configuration"
    assert any(words in gap.detail for gap in domain.observation.gaps)
    (lever,) = (one for one in domain.levers if one.lever is LeverName.REPORTING)
    assert (lever.verdict.reason, words in lever.verdict.detail) == (Reason.GUEST_BLOCKED, True)
    assert lever.observed is Observed.UNKNOWN


def give_commands(agent: FakeAgent, *names: str) -> None:
    """Let an agent's guest-info name commands that it has besides."""
    info = agent._info

    def more(arguments):
        answer = info(arguments)
        answer["supported_commands"] += [{"name": name, "enabled": True} for name in names]
        return answer

    agent._info = more


def test_the_cache_lever_shows_who_could_and_how_much_at_most(host: FakeHost) -> None:
    give_commands(host.agents["uuid-web"], RECLAIM_MEMORY, GET_MEMINFO)
    report = host.run_cycles(2)
    lever, size = of_cache(report, "web")
    assert (lever.observed, lever.desired, lever.verdict.answer) == (Observed.OFF, "on request", Answer.UNCHANGED)
    assert (size.at_most, size.source) == (9 * KIB, GuestSource.PROC)
    assert size.at is not None
    lever, size = of_cache(report, "db")
    assert (lever.observed, lever.verdict.reason, size.at_most) == (Observed.UNSUPPORTED, Reason.GUEST_COMMAND, None)


def test_a_request_within_the_agent_is_refused_in_the_report_without_consent(host: FakeHost) -> None:
    give_commands(host.agents["uuid-web"], RECLAIM_MEMORY, GET_MEMINFO)
    host.run_cycles(2)
    host.reclaims.submit("uuid-web", None, reason="a test", by="somebody")
    lever, _ = of_cache(host.run_cycles(), "web")
    assert (lever.observed, lever.desired) == (Observed.ON, "reclaim all that is cold")
    host.reclaiming.pop()()
    lever, _ = of_cache(host.run_cycles(), "web")
    assert (lever.verdict.answer, lever.verdict.reason) == (Answer.REFUSED, Reason.CONSENT)
    assert any(one.lever is LeverName.CACHE and one.verdict == lever.verdict for one in host.recorder.events)


def test_an_idle_vm_of_a_calm_host_is_asked_for_its_cache_where_that_always_holds(host: FakeHost) -> None:
    ladder = replace(SETTINGS.ladder, always=frozenset({Rung.CACHE}), cache_least=1)
    host.cycle._settings = replace(SETTINGS, ladder=ladder)
    host.caches._always = True
    host.recorder.replace = lambda uuid, origin, values: None
    for name in ("web", "db"):
        policy = {"guest_actions": "allow"} if name == "web" else {}
        host.definitions.known[f"uuid-{name}"] = Definition(builders.facts(memory=4 * GIB, policy=policy))
    report = host.run_cycles(4)
    assert report.plan.pressure.admitting
    assert host.reclaims.busy("uuid-web")
    assert not host.reclaims.busy("uuid-db")
    request = host.reclaims.news("uuid-web").request
    assert (request.by, request.reason) == ("ladder", "the VM is idle")
    # It wakes: what was asked is taken back after the call under way.
    status = host.root.text("proc/4000/status")
    grown = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) + 200 * 1024
    host.root.write("proc/4000/status", re.sub(r"VmRSS:\s+\d+", f"VmRSS: {grown}", status))
    host.run_cycles(1)
    work = host.reclaims._schedule.running["uuid-web"]
    assert work.withdrawn is not None
    assert work.withdrawn.reason is Reason.INTERRUPTED


def bring_back(host: FakeHost, uuid: str = "uuid-web", wanted: int = 0) -> None:
    view = view_of([builders.domain_observation(uuid=uuid)], {uuid: builders.policy()})
    planned = replace(asking(cache={uuid: wanted} if wanted else {}), state=host.cycle.state)
    host.caches._ask(view, planned)


@pytest.mark.parametrize("always", [True, False])
def test_what_was_asked_on_a_calm_host_and_waits_is_taken_back_and_it_says_why(host: FakeHost, always: bool) -> None:
    host.caches._asks = CacheAsks(30.0, always=always)
    host.reclaims.submit("uuid-web", None, reason=CALM, by="ladder")
    bring_back(host)
    assert not host.reclaims.busy("uuid-web")
    assert host.reclaims.news("uuid-web").verdict.detail.endswith("not idle any more") is always


def test_a_host_under_pressure_asks_anew_of_who_was_asked_because_it_was_idle(host: FakeHost) -> None:
    host.cycle.state = replace(host.cycle.state, ladder=LadderState((RungState(Rung.CACHE, host.now, "short"),)))
    host.reclaims.submit("uuid-web", None, reason=CALM, by="ladder")
    bring_back(host, wanted=100 * MIB)
    bring_back(host, wanted=100 * MIB)
    (waiting,) = host.reclaims._schedule.waiting
    assert (waiting.request.reason, waiting.request.size) == (PRESSED, 100 * MIB)


def test_a_reclaims_conversation_waits_for_the_look_under_way_and_is_refused_while_stopping(host: FakeHost) -> None:
    host.run_cycles(2)
    order: list[str] = []

    def step() -> None:
        with host.guests.conversation("uuid-web"):
            order.append("reclaim")

    with host.guests.conversation("uuid-web") as agent:
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(0.05)
        agent.call("guest-info")
        order.append("look")
    thread.join(WAIT_S)
    assert order == ["look", "reclaim"]
    host.cycle.undo(deadline=1.0)
    with pytest.raises(GuestAgentAbsent, match="stopping"), host.guests.conversation("uuid-web"):
        pass


def test_a_vm_that_does_not_run_is_not_asked(host: FakeHost) -> None:
    host.listed[0] = DomainStats("uuid-web", "web", DomainState.PAUSED, {})
    host.run_cycles()
    with pytest.raises(GuestAgentAbsent), host.guests.conversation("uuid-web"):
        pass


def test_the_estimate_is_what_merging_could_bring_back_until_it_merges() -> None:
    estimated = builders.dedup_estimate()
    process = builders.process(ksm_merging=0, ksm_zero=0)
    domain = builders.domain_observation(process=process)
    assert by_dedup(domain, Observed.OFF, estimated).at_most == 420 * MIB
    assert by_dedup(domain, Observed.OFF, None).at_most is None
    merging = builders.domain_observation(process=builders.process(ksm_merging=1 * MIB))
    assert by_dedup(merging, Observed.OFF, estimated).at_most is None


def test_the_report_has_the_estimate_and_who_waits_for_it(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, names=("web",))
    samples = PageSamples(host.root.kernel, 4096, 1.0, 3600.0, 60.0, KsmPace())
    host.cycle._parts = replace(host.cycle._parts, samples=samples)
    assert len(host.cycle.run().dedup.waiting) == 1


def with_cgroups(host: FakeHost, name: str, pid: int) -> str:
    """Give a VM a cgroup of version 2; its directory."""
    top = "sys/fs/cgroup"
    host.root.write("proc/self/mounts", f"cgroup2 /{top} cgroup2 rw 0 0\n")
    scope = f"{top}/machine.slice/machine-{name}.scope"
    still = "avg10=0.00 avg60=0.00 avg300=0.00 total=0"
    for path in (f"{top}/machine.slice", scope):
        host.root.write_all(
            path,
            {
                "memory.min": "0\n",
                "memory.max": "max\n",
                "memory.high": "max\n",
                "memory.swap.max": "max\n",
                "memory.current": f"{2 * GIB}\n",
                "memory.swap.current": "0\n",
                "memory.pressure": f"some {still}\nfull {still}\n",
                "memory.reclaim": "",
                "cgroup.procs": f"{pid}\n" if path == scope else "",
            },
        )
    host.root.write_all(f"proc/{pid}", {"cgroup": f"0::{scope.removeprefix(top)}\n", "oom_score_adj": "0\n"})
    return scope


def test_swap_that_the_vms_may_not_have_backs_none_of_them_while_one_cannot_be_read(host: FakeHost) -> None:
    """As with MemorySwapMax=0 of machine.slice, and a QEMU that is gone, or keeps its counters waiting."""
    for name, pid in (("web", 4000), ("db", 4001), ("old", 4002)):
        scope = with_cgroups(host, name, pid)
        host.root.write(f"{scope}/memory.stat", "anon 1\n")
    host.root.write_all("sys/fs/cgroup/machine.slice", {"memory.stat": "anon 1\n", "memory.swap.max": "0\n"})
    assert host.run_cycles(2).plan.capacity.backing == 0
    (host.run / "db.pid").unlink()
    (host.root.path / "proc/4001/status").unlink()
    report = host.run_cycles(2)
    assert by_name(report)["db"].observation.process is None
    assert report.plan.capacity.backing == 0
    assert "the QEMU of a VM was not read" in {gap.detail for gap in report.observation.gaps}


def lever_of(report, name: str, lever: LeverName):
    return next(state for state in by_name(report)[name].levers if state.lever is lever)


def test_a_class_is_carried_out_every_cycle_and_taken_back_at_the_end(host: FakeHost) -> None:
    scope = with_cgroups(host, "web", 4000)
    host.recorder.wishes = {"uuid-web": {Origin.OPERATOR: {"class": "guaranteed"}}}
    state = lever_of(host.run_cycles(), "web", LeverName.QOS)
    assert (state.desired, state.observed, state.verdict.answer) == ("guaranteed", Observed.ON, Answer.APPLIED)
    size = 4 * GIB + SETTINGS.overhead
    assert (
        host.root.text(f"{scope}/memory.min") == host.root.text("sys/fs/cgroup/machine.slice/memory.min") == str(size)
    )
    host.root.write("sys/fs/cgroup/machine.slice/memory.min", "0\n")  # as systemd does when it is reloaded
    assert lever_of(host.run_cycles(), "web", LeverName.QOS).verdict.answer is Answer.APPLIED
    assert host.root.text("sys/fs/cgroup/machine.slice/memory.min") == str(size)
    assert lever_of(host.run_cycles(), "db", LeverName.QOS).verdict.answer is Answer.UNCHANGED
    assert host.cycle.undo(WAIT_S) == []
    assert host.root.text(f"{scope}/memory.min") == host.root.text("sys/fs/cgroup/machine.slice/memory.min") == "0"
    assert host.root.text("proc/4000/oom_score_adj") == "0"


def test_what_the_ladder_asks_is_swapped_out_on_a_thread_and_shown(host: FakeHost) -> None:
    scope = with_cgroups(host, "web", 4000)
    host.recorder.wishes = {"uuid-web": {Origin.OPERATOR: {"swap_out": "allow"}}}
    report = host.run_cycles()
    assert lever_of(report, "web", LeverName.SWAP_OUT).verdict.reason is Reason.NOT_ENCRYPTED
    assert lever_of(report, "db", LeverName.SWAP_OUT).verdict.reason is Reason.OPT_OUT
    host.root.write("sys/block/dm-0/dm/uuid", "CRYPT-PLAIN-swap\n")
    host.root.write("proc/swaps", "Filename Type Size Used Priority\n/dev/dm-0 partition 67108864 0 -2\n")
    seen = view_of(
        [one.observation for one in report.domains], {one.observation.uuid: one.policy for one in report.domains}
    )
    pressed, calm = asking(swap_out={"uuid-web": 32 * MIB}), asking()

    def shown() -> LeverState:
        return next(one for one in host.swap_out.states(seen, calm) if one.subject == "uuid-web")

    host.swap_out.pull(seen, pressed)
    assert host.swap_out.settle(WAIT_S)
    assert host.root.text(f"{scope}/memory.reclaim") == str(16 * MIB)
    assert "asked 16 MiB" in shown().verdict.detail  # of a guest under KVM little is taken at first
    # asked for nothing any more, it says again whether it could be
    host.swap_out.pull(seen, calm)
    assert host.swap_out.settle(WAIT_S)
    assert shown().verdict == Verdict(Answer.UNCHANGED)
    host.root.write(f"{scope}/memory.reclaim", "")
    host.swap_out.close()
    host.swap_out.pull(seen, pressed)
    assert host.swap_out.settle(WAIT_S)
    assert host.root.text(f"{scope}/memory.reclaim") == ""


def test_a_class_outlasts_the_loss_of_the_store(host: FakeHost, monkeypatch) -> None:
    with_cgroups(host, "web", 4000)
    host.recorder.wishes = {"uuid-web": {Origin.OPERATOR: {"class": "guaranteed"}}}
    host.run_cycles()
    ledger = host.ledger
    monkeypatch.setattr(ledger, "all", lambda: (_ for _ in ()).throw(StoreError("the disk is full")))
    state = lever_of(host.run_cycles(), "web", LeverName.QOS)
    assert (state.desired, state.observed) == ("guaranteed", Observed.ON)


def test_where_guests_are_not_trusted_none_is_asked_and_the_host_is_seen_all_the_same(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, guests=False)
    host.recorder.wishes = {"uuid-web": {Origin.OPERATOR: {"reporting": "off", "guest_actions": "allow"}}}
    report = host.run_cycles(3)
    assert all(agent.commands() == [] for agent in host.agents.values())
    assert lever_of(report, "web", LeverName.REPORTING).verdict.reason is Reason.NO_GUEST_AGENT
    assert report.plan.capacity.headroom > 0
    assert all(one.observation.footprint is not None for one in report.domains)


def test_an_agent_that_ends_says_so_for_the_next_boot_and_one_that_never_planned_says_nothing(host: FakeHost) -> None:
    host.cycle.end()
    assert host.recorder.saved == ()
    host.run_cycles(1)
    assert host.recorder.saved[1] is None
    host.cycle.end()
    assert host.recorder.saved[0] is host.cycle.state
    assert host.recorder.saved[1] > 0
    host.recorder.failing = True
    host.cycle.end()  # what it undoes does not wait for its store


def test_runners_are_told_that_the_whole_host_goes_down(tmp_path: Path) -> None:
    told = []

    class Runner(LeverRunner):
        def pull(self, view, planned) -> None:
            raise AssertionError("no cycle was run")

        def host_ends(self) -> None:
            told.append(True)

    host = FakeHost(tmp_path, more=lambda note: (Runner(),))
    host.cycle.end()
    assert told == [True]
