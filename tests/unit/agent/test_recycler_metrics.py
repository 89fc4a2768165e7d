"""The bytes that recyclers gave back: a sum that never falls, whatever becomes of the VMs."""

from __future__ import annotations

from dataclasses import replace

from memhint.agent.recycler_metrics import RecyclerMetrics
from memhint.objects.report import DomainReport, Report
from tests.unit import builders


def vm(uuid: str, pid: int = 100, **recycler: object) -> DomainReport:
    base = builders.report().domains[0]
    counters = builders.balloon_reporting(recycler=builders.recycler_counters(**recycler))
    process = replace(base.observation.process, pid=pid)
    return replace(base, observation=replace(base.observation, uuid=uuid, process=process, balloon_reporting=counters))


def report(*domains: DomainReport) -> Report:
    return replace(builders.report(), domains=domains)


def shown(metrics: RecyclerMetrics) -> dict[str, float]:
    return {
        sample.labels.get("outcome", "working"): sample.value for one in metrics.collect() for sample in one.samples
    }


def test_what_vms_gave_back_adds_up_and_stays_when_one_ends_or_begins_anew() -> None:
    metrics = RecyclerMetrics()
    nothing = {"recycled": 0, "lost": 0, "failed": 0}
    metrics.take(report(vm("a", recycled=5000, lost=7, failed=0), vm("b", recycled=100, lost=0, failed=0)))
    assert shown(metrics) == {**nothing, "working": 2}  # from before it looked
    metrics.take(report(vm("a", recycled=6000, lost=8, failed=1), vm("b", recycled=300, lost=0, failed=0)))
    assert shown(metrics) == {"recycled": 1200, "lost": 1, "failed": 1, "working": 2}
    metrics.take(report(vm("b", pid=200, recycled=4, lost=0, failed=0)))
    assert shown(metrics)["recycled"] == 1200
    metrics.take(report(vm("b", pid=200, recycled=10, lost=0, failed=0, workers=0)))
    assert shown(metrics) == {"recycled": 1206, "lost": 1, "failed": 1, "working": 0}


def test_who_has_no_recycler_counts_for_nothing() -> None:
    metrics = RecyclerMetrics()
    metrics.take(builders.report())
    one = vm("a")
    without = replace(one, observation=replace(one.observation, balloon_reporting=None))
    metrics.take(report(without, replace(one, observation=replace(one.observation, process=None))))
    assert set(shown(metrics).values()) == {0}
