"""Every metric that memhint has, made of the code that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from memhint.agent.metrics import AgentMetrics, BusMetrics
from memhint.bus.rabbit_publisher import Sent
from memhint.controller.intake import Intake
from memhint.controller.metrics import Counts, Metered
from memhint.metrics.registry import registry_of
from tests.unit import builders

OWN = "memhint_"


@dataclass(frozen=True)
class Family:
    """One metric as Prometheus has it: a counter's name ends with _total."""

    name: str
    kind: str
    labels: tuple[str, ...]
    text: str

    def row(self) -> str:
        """Its row in doc/metrics.md."""
        labels = ", ".join(f"`{one}`" for one in self.labels)
        return f"| `{self.name}` | {self.kind} | {labels} | {self.text} |"


def families_of(exposition: str) -> list[Family]:
    """memhint's own families of what a process shows."""
    found = []
    for one in text_string_to_metric_families(exposition):
        if not one.name.startswith(OWN):
            continue
        name = f"{one.name}_total" if one.type == "counter" else one.name
        labels = dict.fromkeys(label for sample in one.samples for label in sample.labels if label != "le")
        found.append(Family(name, one.type, tuple(labels), one.documentation))
    return found


def agent_registry() -> CollectorRegistry:
    """An agent's, after a cycle."""
    registry = registry_of("agent")
    metrics = AgentMetrics(registry)
    metrics.take(builders.report())
    registry.register(BusMetrics(lambda: {"store": 0}, Sent))
    return registry


def controller_registry(intake: Intake) -> CollectorRegistry:
    """A controller's, before its first message."""
    registry = registry_of("controller")
    metered = Metered(intake, registry)
    metered.waits({"state": 0})
    registry.register(Counts(lambda: intake.counts, lambda: {}))
    return registry


def values(exposition: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each sample of a name."""
    for family in text_string_to_metric_families(exposition):
        for sample in family.samples:
            if sample.name == name:
                yield dict(sample.labels), sample.value


def value(exposition: str, name: str, **labels: str) -> float:
    """The one sample that has these labels."""
    found = [number for had, number in values(exposition, name) if labels.items() <= had.items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]
