from __future__ import annotations

from prometheus_client.exposition import generate_latest

from memhint.agent.metrics import AgentMetrics, BusMetrics
from memhint.bus.rabbit_publisher import Sent
from memhint.metrics.registry import registry_of
from memhint.objects.gap import Gap, GapReason
from memhint.objects.lever import LeverName, LeverState, Observed
from memhint.objects.report import Cost
from memhint.objects.verdict import Answer, Reason, Verdict
from tests.unit import builders
from tests.unit.metrics.families import value, values


def test_a_cycle_is_counted_with_its_time_and_what_it_could_not_see() -> None:
    registry = registry_of("agent")
    metrics = AgentMetrics(registry)
    gaps = (Gap("libvirt", GapReason.PENDING, "connecting"),)
    metrics.take(builders.report(cost=Cost(0.25, 0.5, 1, 1), gaps=gaps))
    metrics.take(builders.report(cost=Cost(0.25, 1.5, 1, 1), gaps=()))
    metrics.failed()
    shown = generate_latest(registry).decode()
    assert value(shown, "memhint_agent_cycle_duration_seconds_count") == 2
    assert value(shown, "memhint_agent_cycle_duration_seconds_sum") == 2.0
    assert value(shown, "memhint_agent_cycle_cpu_seconds_total") == 0.5
    assert value(shown, "memhint_agent_cycle_failures_total") == 1
    known = sum(number for _, number in values(shown, "memhint_agent_gaps"))
    report = builders.report(gaps=())
    assert known == len(report.observation.gaps) + sum(len(one.observation.gaps) for one in report.domains)


def test_verdicts_are_counted_by_lever_and_answer_and_never_by_vm() -> None:
    registry = registry_of("agent")
    metrics = AgentMetrics(registry)
    refused = Verdict(Answer.REFUSED, Reason.CONSENT, "no")
    states = [LeverState(LeverName.CACHE, f"vm-{number}", "auto", Observed.OFF, refused) for number in range(50)]
    before = len(list(values(generate_latest(registry).decode(), "memhint_agent_lever_verdicts_total")))
    metrics.record("host-a", 1.0, states)
    shown = generate_latest(registry).decode()
    assert value(shown, "memhint_agent_lever_verdicts_total", lever="cache", answer="refused") == 50
    after = len(list(values(shown, "memhint_agent_lever_verdicts_total")))
    assert after == before == len(LeverName) * len(Answer)


def test_what_the_bus_lost_is_read_when_it_is_asked_for() -> None:
    registry = registry_of("agent")
    sent = [Sent()]
    registry.register(BusMetrics(lambda: {"store": 3}, lambda: sent[0]))
    sent[0] = Sent(connected=True, states=5, replaced=1, expired=2, records=4, waiting=6, lost=7)
    shown = generate_latest(registry).decode()
    assert value(shown, "memhint_agent_subscriber_failures_total", subscriber="store") == 3
    assert value(shown, "memhint_agent_broker_connected") == 1
    assert value(shown, "memhint_agent_reports_total", outcome="expired") == 2
    assert value(shown, "memhint_agent_spool_depth") == 6
    assert value(shown, "memhint_agent_spool_lost_total") == 7


def test_an_agent_without_a_broker_says_nothing_of_one() -> None:
    registry = registry_of("agent")
    registry.register(BusMetrics(lambda: {"store": 0}, None))
    assert "broker_connected" not in generate_latest(registry).decode()
