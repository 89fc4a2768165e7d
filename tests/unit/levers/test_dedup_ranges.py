"""Only what has an equal is marked, where the finder knows it and QEMU can; and nothing is ever half marked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.lever import Observed
from memhint.objects.merge_ranges import Range, RangeChoice
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from tests.unit.levers.fakes import BASE, FakeMonitor
from tests.unit.levers.test_dedup import Host


def part(*mib: tuple[int, int]) -> RangeChoice:
    ranges: tuple[Range, ...] = tuple((BASE + start * MIB, BASE + end * MIB) for start, end in mib)
    return RangeChoice(ranges, 1000, sum(end - start for start, end in ranges))


WHOLE = RangeChoice(None, 0, 0)
NOTHING = RangeChoice((), 0, 0)


@pytest.fixture
def host(tmp_path) -> Host:
    host = Host(tmp_path, advisor=None, target_scan_time=None, max_cpu=None)
    for monitor in host.monitors.values():
        monitor.by_range = True
    host.choices = {"a": part((16, 32), (64, 65)), "b": part((0, 8))}
    return host


def marked(host: Host, name: str) -> int:
    return 4096 * len(host.monitors[name].ranges)


def test_members_merge_by_range_and_all_others_are_out(host: Host) -> None:
    verdicts, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert host.merging() == set()
    assert host.monitors["a"].calls == [((16 * MIB, 32 * MIB), (64 * MIB, 65 * MIB))]
    assert (marked(host, "a"), marked(host, "b"), marked(host, "c")) == (17 * MIB, 8 * MIB, 0)
    assert verdicts["a"].answer is Answer.APPLIED
    assert verdicts["a"].detail == "what has an equal may merge: 17 of 1024 MiB, in 2 ranges"
    assert host.lever.read(host.domains[0], host.seen()) is Observed.ON
    assert host.knob("run") == "1"


def test_a_second_pass_asks_no_qemu_and_says_the_same(host: Host) -> None:
    host.reconcile()
    verdicts, _ = host.reconcile()
    assert len(host.monitors["a"].calls) == 1
    assert verdicts["a"].answer is Answer.UNCHANGED
    assert "17 of 1024 MiB" in verdicts["a"].detail


def test_ranges_are_added_and_none_is_taken_out(host: Host) -> None:
    host.reconcile()
    host.choices["a"] = part((24, 40))
    verdicts, _ = host.reconcile()
    assert host.monitors["a"].calls[1:] == [((32 * MIB, 40 * MIB),)]
    assert marked(host, "a") == 25 * MIB
    assert verdicts["a"].answer is Answer.APPLIED
    assert host.monitors["a"].history == [False]  # once, before the first ranges


def test_a_vm_in_which_nothing_has_an_equal_is_not_scanned(host: Host) -> None:
    host.choices["b"] = NOTHING
    verdicts, _ = host.reconcile()
    assert verdicts["b"].reason is Reason.DOES_NOT_PAY
    assert (marked(host, "b"), host.monitors["b"].merge) == (0, False)


def test_all_of_a_vm_merges_where_ranges_would_not_pay(host: Host) -> None:
    host.choices["a"] = WHOLE
    host.reconcile()
    assert host.merging() == {"a"}
    host.choices["a"] = part((0, 1))
    host.reconcile()
    assert host.merging() == {"a"}  # to narrow it would separate what merged


def test_a_qemu_without_the_command_merges_all_of_the_vm(host: Host) -> None:
    host.monitors["a"].by_range = False
    verdicts, _ = host.reconcile()
    assert verdicts["a"].answer is Answer.APPLIED
    assert host.merging() == {"a"}
    assert host.monitors["a"].history == [True]  # it was never separated for ranges that cannot be
    assert marked(host, "b") == 8 * MIB


def test_ranges_that_nobody_remembers_do_not_pass_for_what_qemu_leaves_marked(host: Host) -> None:
    host.monitors["d"] = FakeMonitor(host.root, 14, 1 * GIB, merge=False)
    host.monitors["d"].ranges = set(range(0, 16 * MIB, 4096))
    host.monitors["d"].show()
    host.reconcile()
    assert host.monitors["d"].history == [False]
    assert not host.monitors["d"].ranges


def test_what_qemu_did_not_do_is_no_success_and_nothing_stays_half_marked(host: Host) -> None:
    host.monitors["a"].deaf = True
    host.monitors["a"].merge = host.monitors["a"].said = False
    host.monitors["a"].show()
    verdicts, _ = host.reconcile()
    assert verdicts["a"].answer is Answer.FAILED
    assert "0 MiB are mergeable after 17 MiB" in verdicts["a"].detail
    host.monitors["a"].deaf = False
    host.reconcile()
    assert host.merging() == {"a"}  # the whole VM, from the next pass on


def test_separating_a_vm_that_merged_in_ranges_needs_headroom(host: Host) -> None:
    host.reconcile()
    host.domains[0] = replace(host.domains[0], process=replace(host.domains[0].process, ksm_merging=700 * MIB))
    host.available = int(1.5 * GIB)
    host.asks = {"b": "on"}
    verdicts, own = host.reconcile()
    assert verdicts["a"].reason is Reason.HEADROOM
    assert marked(host, "a") == 17 * MIB
    assert own.reason is Reason.NOT_VERIFIED


def test_off_takes_the_ranges_away_and_leaves_qemu_as_it_was(host: Host) -> None:
    host.reconcile()
    host.asks = {}
    _, own = host.reconcile()
    assert own.answer is Answer.APPLIED
    assert host.monitors["a"].history[-2:] == [False, True], "few as they are, they are separated first"
    assert marked(host, "a") == 0
    assert host.merging() == {"a", "b", "c", "d"}
    assert host.ledger.all() == ()


def test_an_agent_that_was_started_again_leaves_ranges_as_they_are_until_it_knows_better(host: Host) -> None:
    host.reconcile()
    known, host.choices = host.choices, {}
    host.lever = host.make()
    verdicts, _ = host.reconcile()
    assert (marked(host, "a"), host.merging()) == (17 * MIB, set())
    assert verdicts["a"].ok
    host.choices = {**known, "a": part((16, 32), (100, 101))}
    host.reconcile()
    assert marked(host, "a") == 18 * MIB
    assert host.monitors["a"].history == [False]
    host.asks = {}
    host.reconcile()
    assert marked(host, "a") == 0


def test_a_dry_run_marks_nothing(host: Host) -> None:
    verdicts, _ = host.reconcile(dry_run=True)
    assert verdicts["a"].answer is Answer.PLANNED
    assert host.monitors["a"].calls == []
    assert host.monitors["a"].history == []


def test_a_vm_that_rests_keeps_nobody_from_merging_where_it_cannot_be_separated(host: Host) -> None:
    host.reconcile()
    host.domains[0] = replace(host.domains[0], process=replace(host.domains[0].process, ksm_merging=700 * MIB))
    host.available = int(1.5 * GIB)
    plan = host.plan()
    plan = replace(plan, members=plan.members - {"a"}, spared=frozenset({"a"}))
    outcome = host.lever.reconcile(plan, host.domains, host.seen(), dry_run=False)
    assert outcome.verdicts["a"].reason is Reason.HEADROOM
    assert outcome.host.ok
    assert host.knob("run") == "1"
