"""The broker's disk is full, so it takes nothing from anybody: agents spool, the API answers, and nothing is lost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.bus.topology import DEAD
from memhint.store import open_store
from tests.adversary.scale import HEALTHY_WITHIN
from tests.functional.api_server import ApiServer
from tests.functional.fleet_parts import EPOCH, Controllers, links
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.unit import builders
from tests.waiting import until


@pytest.fixture
def broker(rabbitmq: RabbitMQ) -> Iterator[RabbitMQ]:
    rabbitmq.begin()
    yield rabbitmq
    rabbitmq.control("set_disk_free_limit", "10MB")


def test_a_broker_whose_disk_is_full_costs_nothing_but_time(broker: RabbitMQ, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memhint.db"
    config = tmp_path / "memhint.conf"
    bus = f"[bus]\nurls = {broker.url(CONTROLLER)}\nheartbeat = 10\nbackoff_max = 1\n"
    config.write_text(f"[store]\nurl = {url}\n{bus}[controller]\nsweep = 0.5\n")
    store = open_store(url)
    controllers = Controllers(config)
    controller = controllers.start()
    agent = RabbitPublisher(
        links(broker, "host-a"), "host-a", EPOCH, Spool(tmp_path / "spool.db", 1000, 2**20), flush=0.0
    )
    agent.start()
    api = ApiServer(tmp_path, url, more=bus)
    began, sent = time.time(), []

    def cycle() -> None:
        sent.append(began + len(sent))
        agent.publish(builders.report(epoch=EPOCH, sequence=len(sent), at=sent[-1], period=600.0))

    def points() -> list[float]:
        return [one.at for one in store.history.of("host-a")]

    try:
        cycle()
        until(lambda: points() == sent)
        broker.control("set_disk_free_limit", "1000000GB")
        for _ in range(5):
            cycle()
            asked = time.monotonic()
            status, body = api.get("/healthz", None)
            assert time.monotonic() - asked < HEALTHY_WITHIN
            assert status in (200, 503)
            assert json.loads(body)["store"] == "ok"
        # Longer than a connection bears to be blocked: the agent has let go of it, and tries again.
        until(lambda: not agent.counts.connected)
        assert agent.counts.waiting >= 5
        assert (points(), agent.counts.lost) == (sent[:1], 0)
        assert controller.poll() is None
        broker.control("set_disk_free_limit", "10MB")
        cycle()
        until(lambda: points() == sent)
        assert [one.sequence for one in store.fleet.hosts()] == [len(sent)]
        assert (agent.counts.lost, broker.depth(DEAD)) == (0, 0)
        assert api.get("/healthz", None)[0] == 200
    finally:
        api.close()
        agent.close()
        controllers.close()
        store.close()
