"""A host's line for lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.gap import Gap, GapReason
from memhint.objects.plan import Demand, DemandReason
from memhint.objects.report import Report
from memhint.objects.summary import host_summary
from memhint.objects.units import GIB, MIB
from tests.unit import builders

OVERHEAD = 128 * MIB


def made(*beside: int, overhead: int = OVERHEAD) -> Report:
    """:param beside: bytes that QEMU takes beside the 8 GiB of each VM"""
    uuids = [f"00000000-0000-0000-0000-{number:012}" for number in range(len(beside))]
    domains = tuple(
        builders.domain_report(
            observation=builders.domain_observation(uuid=one, name=one, facts=builders.facts(memory=8 * GIB))
        )
        for one in uuids
    )
    demands = tuple(
        Demand(one, 8 * GIB + max(OVERHEAD, qemu), 8 * GIB + qemu, 8 * GIB, DemandReason.FORECAST)
        for one, qemu in zip(uuids, beside, strict=True)
    )
    capacity = builders.capacity(assigned=sum(one.assigned for one in demands))
    plan = builders.plan(capacity=capacity, demands=demands)
    return builders.report(domains=domains, plan=plan, slot=GIB + overhead, slot_overhead=overhead)


@pytest.mark.parametrize("beside", [(0, 0, 0), (128 * MIB,) * 3, (400 * MIB, 0, 4 * GIB)])
def test_a_vm_was_given_its_memory_and_the_overhead_however_much_its_qemu_takes(beside: tuple[int, ...]) -> None:
    report = made(*beside)
    assert host_summary(report, builders.NOW).assigned == 3 * (8 * GIB + OVERHEAD)
    assert host_summary(report, builders.NOW).nominal_headroom == report.plan.capacity.nominal_headroom()


def test_an_agent_that_does_not_tell_its_overhead_is_believed_as_it_is() -> None:
    told = replace(made(0, GIB, overhead=0), agent=None)
    assert host_summary(told, builders.NOW).assigned == 2 * 8 * GIB + OVERHEAD + GIB


def test_an_overhead_of_nothing_is_one_that_is_told() -> None:
    told = replace(made(0, GIB, overhead=0), agent="1.0")
    assert host_summary(told, builders.NOW).assigned == 2 * 8 * GIB


def test_a_vm_that_left_every_sum_takes_nothing_off() -> None:
    report = made(0, 0)
    outside = Demand("00000000-0000-0000-0000-000000000000", 99 * GIB, 0, 0, DemandReason.OUTSIDE)
    plan = builders.plan(capacity=report.plan.capacity, demands=(outside, report.plan.demands[1]))
    told = builders.report(domains=report.domains, plan=plan, slot=GIB + OVERHEAD, slot_overhead=OVERHEAD)
    assert host_summary(told, builders.NOW).assigned == 2 * (8 * GIB + OVERHEAD)


def test_numbers_that_do_not_fit_each_other_make_no_sum_below_nothing() -> None:
    report = made(4 * GIB, 4 * GIB)
    plan = builders.plan(capacity=builders.capacity(assigned=GIB), demands=report.plan.demands)
    told = builders.report(domains=report.domains, plan=plan, slot=GIB + OVERHEAD, slot_overhead=OVERHEAD)
    assert host_summary(told, builders.NOW).assigned == 0


def test_a_vm_of_unknown_size_was_given_what_it_uses() -> None:
    report = made(0, GIB)
    observation = builders.domain_observation(uuid=report.plan.demands[1].uuid, facts=builders.facts(memory=0))
    domains = (report.domains[0], builders.domain_report(observation=observation))
    told = builders.report(domains=domains, plan=report.plan, slot=GIB + OVERHEAD, slot_overhead=OVERHEAD)
    assert host_summary(told, builders.NOW).assigned == 2 * 8 * GIB + OVERHEAD + GIB


@pytest.mark.parametrize("reason", GapReason)
def test_what_a_host_or_a_guest_does_not_have_is_no_gap_of_the_hosts_line(reason: GapReason) -> None:
    gap = Gap("balloon reporting", reason, "it is missing")
    domain = builders.domain_report(observation=builders.domain_observation(gaps=(gap,)))
    told = builders.report(domains=(domain,), observation=builders.host_observation(gaps=(gap,)), gaps=(gap,))
    assert host_summary(told, builders.NOW).gaps == (0 if reason is GapReason.UNSUPPORTED else 3)


def test_a_vm_without_its_process_is_a_gap_whatever_the_reason() -> None:
    gaps = tuple(Gap("process", reason) for reason in GapReason)
    domain = builders.domain_report(observation=builders.domain_observation(gaps=gaps))
    told = builders.report(domains=(domain,), observation=builders.host_observation(gaps=()), gaps=())
    assert host_summary(told, builders.NOW).gaps == len(GapReason)
