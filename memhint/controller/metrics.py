"""What a controller tells Prometheus of itself: what it took, how long that lasted, and what still waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, Metric

from memhint.bus.envelope import Envelope
from memhint.bus.rabbit_consumer import Handler, HandlerUnavailable

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds of one batch
# As CapacityWriter.counts has them.
WRITES = ("written", "outdated", "overtaken", "failed", "conflict", "refused", "unverified")


class Metered:
    """A handler of messages that counts what another one does."""

    def __init__(
        self, handler: Handler, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._messages = Counter(
            "memhint_controller_messages", "Messages that the store kept, by kind", ["kind"], registry=registry
        )
        self._dead = Counter(
            "memhint_controller_dead_letters", "Messages that went to the dead letters", registry=registry
        )
        self._over = Counter(
            "memhint_controller_over_rate",
            "Messages that were dropped unread, because their sender sent too many",
            registry=registry,
        )
        self._away = Counter(
            "memhint_controller_store_away", "Batches that waited because the store was away", registry=registry
        )
        self._batch = Histogram(
            "memhint_controller_batch_duration_seconds",
            "Time in which a batch of messages was kept",
            buckets=BUCKETS,
            registry=registry,
        )
        self._queue = Gauge(
            "memhint_controller_queue_depth", "Messages that wait in the broker, by queue", ["queue"], registry=registry
        )
        self._connected = Gauge(
            "memhint_controller_broker_connected", "Whether the broker says how much waits: 0 or 1", registry=registry
        )
        for kind in ("state", "record"):
            self._messages.labels(kind)

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        """Hand a batch on.

        :raises HandlerUnavailable: when all of it should be tried again
        """
        began = self._clock()
        try:
            answers = self._handler.take(batch)
        except HandlerUnavailable:
            self._away.inc()
            raise
        self._batch.observe(self._clock() - began)
        for one, refused in zip(batch, answers, strict=True):
            if refused is None:
                self._messages.labels(one.kind).inc()
        return answers

    def ready(self) -> None:
        """Hand on the question whether messages could be kept."""
        self._handler.ready()

    def poison(self, user: str, why: str) -> None:
        """Hand on who sent what was refused."""
        self._dead.inc()
        self._handler.poison(user, why)

    def over(self, user: str) -> None:
        """Hand on who sends too much."""
        self._over.inc()
        self._handler.over(user)

    def tick(self) -> None:
        """Hand on that there is time between two batches."""
        self._handler.tick()

    def waits(self, depths: Mapping[str, int]) -> None:
        """How many messages wait in each queue; of none where the broker does not say.

        What was seen before is not told any more then: it would stay that for ever.
        """
        self._connected.set(bool(depths))
        if not depths:
            self._queue.clear()
        for queue, depth in depths.items():
            self._queue.labels(queue).set(depth)


class Counts:
    """Counters that are kept elsewhere, read when Prometheus asks."""

    def __init__(
        self,
        sweeps: Callable[[], Mapping[str, int]],
        writes: Callable[[], Mapping[str, int]],
        judged: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """:param sweeps: as Intake.counts has them
        :param writes: as CapacityWriter.counts has them; nothing where no ratio is written
        :param judged: as Judge.counts has them
        """
        self._sweeps = sweeps
        self._writes = writes
        self._judged = judged

    def collect(self) -> Iterator[Metric]:
        """Every family."""
        counts = self._sweeps()
        yield CounterMetricFamily("memhint_controller_sweeps", "Looks for silent hosts", counts.get("sweeps", 0))
        yield CounterMetricFamily(
            "memhint_controller_sweep_failures", "Such looks that the store did not let happen", counts.get("failed", 0)
        )
        yield CounterMetricFamily(
            "memhint_controller_sweep_refusals",
            "Hosts and requests that such a look left as they are, because the database refuses what it finds",
            counts.get("spoiled", 0),
        )
        yield CounterMetricFamily(
            "memhint_controller_hosts_silenced", "Hosts that were marked as silent", counts.get("silenced", 0)
        )
        writes = CounterMetricFamily(
            "memhint_controller_ratio_writes",
            "Allocation ratios: written, outdated and begun again, overtaken by a newer report or another controller,"
            " failed, left alone (conflict, refused, unverified)",
            labels=["outcome"],
        )
        found = self._writes()
        for outcome in WRITES:
            writes.add_metric([outcome], found.get(outcome, 0))
        yield writes
        hours = CounterMetricFamily(
            "memhint_controller_promises",
            "Hours of hosts: all that was promised as they began could have been given (held), or not (broken)",
            labels=["outcome"],
        )
        judged = self._judged()
        for outcome in ("held", "broken"):
            hours.add_metric([outcome], judged.get(outcome, 0))
        yield hours
