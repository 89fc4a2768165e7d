"""Controllers as processes and agents as publishers, for tests that take something away from them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from memhint.bus.link import LinkSettings
from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.store import Store
from tests.functional.processes import ROOT
from tests.functional.servers.rabbitmq import RabbitMQ
from tests.told import pulls
from tests.unit import builders

EPOCH = "001700000000000-0000000a"
HOSTS = ("host-a", "host-b")


def links(broker: RabbitMQ, user: str) -> LinkSettings:
    return LinkSettings((broker.url(user),), timeout=10, heartbeat=10, backoff_max=1.0)


class Controllers:
    """`memhint controller`, as often as a test starts it."""

    def __init__(self, config: Path) -> None:
        self._command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(config), "controller"]
        self._log = config.with_suffix(".log")
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)
        self.running.append(process)
        return process

    def log(self) -> str:
        return self._log.read_text()

    def serve(self) -> bool:
        """Whether all that were started have opened the store."""
        return self.log().count("controller, a sweep") == len(self.running)

    def close(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()


class Agents:
    """Two hosts that report; what was sent is known, and can be held against what a store has."""

    def __init__(self, urls: dict[str, list[str]], place: Path) -> None:
        """:param urls: of the broker's nodes, by host."""
        self._began = time.time()
        self.sent: list[float] = []
        self._publishers = {}
        for host, its in urls.items():
            links = LinkSettings(tuple(its), timeout=10, heartbeat=10, backoff_max=1.0)
            spool = Spool(place / f"{host}.db", 10_000, 2**24)
            self._publishers[host] = RabbitPublisher(links, host, EPOCH, spool, flush=0.0)
            self._publishers[host].start()

    def publish(self, number: int) -> None:
        """So many cycles of each host."""
        for _ in range(number):
            at = self._began + len(self.sent)
            self.sent.append(at)
            for host, agent in self._publishers.items():
                agent.publish(builders.report(host=host, epoch=EPOCH, sequence=len(self.sent), at=at, period=600.0))
                agent.record(host, at, [builders.lever_state()])

    def record(self) -> None:
        """An event of each host, and no report."""
        for host, agent in self._publishers.items():
            agent.record(host, self._began, [builders.lever_state()])

    def connected(self) -> bool:
        """Whether all have found the broker."""
        return all(one.counts.connected for one in self._publishers.values())

    def sent_all(self) -> bool:
        """Whether the broker has all that must reach it."""
        return all(one.counts.waiting == 0 for one in self._publishers.values())

    def taken(self, store: Store) -> int:
        """The fewest points that the store has of a host."""
        return min(len(store.history.of(host)) for host in self._publishers)

    def complete(self, store: Store) -> bool:
        """Whether the store has all that was sent: points and newest reports each once, and every event."""
        points = all([one.at for one in store.history.of(host)] == self.sent for host in self._publishers)
        newest = [one.sequence for one in store.fleet.hosts()] == [len(self.sent)] * len(self._publishers)
        # What belongs to one cycle may come in several messages, its events last.
        return points and newest and len(pulls(store)) >= len(self.sent) * len(self._publishers)

    def missing(self, store: Store) -> str:
        """What `complete` waits for."""
        points = {host: len(store.history.of(host)) for host in self._publishers}
        sent = {host: one.counts for host, one in self._publishers.items()}
        newest = {one.name: one.sequence for one in store.fleet.hosts()}
        return f"of {len(self.sent)} cycles: points {points}, newest {newest}, events {len(pulls(store))}; sent {sent}"

    def check_events(self, store: Store) -> None:
        """Every event is there once, and nothing was dropped on the way."""
        events = sorted((one.host, one.at) for one in pulls(store))
        assert events == sorted((host, at) for host in self._publishers for at in self.sent)
        assert [one.lost for one in store.fleet.hosts()] == [0] * len(self._publishers)

    def close(self) -> None:
        for one in self._publishers.values():
            one.close()
