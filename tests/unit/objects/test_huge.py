"""The huge pages of a host: each VM by its size, and nothing where nobody knows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.agent.huge_metrics import HugeMetrics
from memhint.objects.domain import DeepMemory
from memhint.objects.huge import huge_pages
from memhint.objects.report import Report
from memhint.objects.units import GIB
from tests.unit import builders


def report(*deep: DeepMemory | None) -> Report:
    base = builders.report()
    some = base.domains[0]
    return replace(base, domains=tuple(replace(some, observation=replace(some.observation, deep=one)) for one in deep))


def test_a_large_vm_counts_for_more_than_a_small_one() -> None:
    large = DeepMemory(0.0, 3 * GIB, 3 * GIB, 3 * GIB, {0: 3 * GIB}, {1: 4})
    small = DeepMemory(0.0, GIB, GIB, 0, {0: GIB}, {0: 1})
    found = huge_pages(report(large, small, None))
    assert (found.coverage, found.remote) == (pytest.approx(0.75), pytest.approx(0.75))


def test_what_nobody_read_is_unknown_and_has_no_series() -> None:
    base = report(None)
    unknown = replace(base, observation=replace(base.observation, huge=None, free_huge={}))
    found = huge_pages(unknown)
    assert (found.coverage, found.remote, found.activity) == (None, None, None)
    metrics = HugeMetrics()
    assert list(metrics.collect()) == []
    metrics.take(unknown)
    assert list(metrics.collect()) == []


def test_the_kernel_s_counters_are_told_as_they_are() -> None:
    metrics = HugeMetrics()
    metrics.take(builders.report())
    shown = {sample.labels.get("event"): sample.value for one in metrics.collect() for sample in one.samples}
    assert shown["fault_alloc"] == 7000
    assert shown["compact_fail"] == 9
    assert "khugepaged_rounds" not in shown  # not read on that host
    base = builders.report()
    assert base.observation.huge is not None
    seen = replace(base.observation.huge, khugepaged_rounds=3)
    metrics.take(replace(base, observation=replace(base.observation, huge=seen)))
    shown = {sample.labels.get("event"): sample.value for one in metrics.collect() for sample in one.samples}
    assert shown["khugepaged_rounds"] == 3
