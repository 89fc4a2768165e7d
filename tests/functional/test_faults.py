"""What a fleet loses when a node of its broker, or its database, goes away and comes back: nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from lab.servers.bus_users import CONTROLLER, rights
from lab.servers.mariadb import MariaDB
from lab.servers.postgres import Postgres
from lab.servers.rabbitmq import definitions
from lab.servers.rabbitmq_cluster import Cluster
from memhint.bus.topology import DEAD, RECORD, STATE, declare
from memhint.store import open_store
from tests.functional.fleet_parts import HOSTS, Agents, Controllers
from tests.functional.servers.rabbitmq import RabbitMQ, wait_for_queues
from tests.told import happened
from tests.waiting import until


def configured(place: Path, database: str, urls: list[str]) -> Path:
    path = place / "memhint.conf"
    path.write_text(
        f"[store]\nurl = {database}\n[bus]\nurls = {','.join(urls)}\nheartbeat = 10\nbackoff_max = 1\n"
        "[controller]\nsweep = 0.5\nbatch = 10\n"
    )
    return path


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(definitions(rights(HOSTS)))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def drained(cluster: Cluster) -> bool:
    depths = cluster.depths()
    return all(depths[queue] == 0 for queue in (STATE, RECORD, DEAD))


def test_a_cluster_of_three_goes_on_without_any_one_node(cluster: Cluster, postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.create("memhint_cluster")
    store = open_store(url)
    controllers = Controllers(configured(tmp_path, url, cluster.urls(CONTROLLER)))
    agents = Agents({host: cluster.urls(host) for host in HOSTS}, tmp_path)

    def seen() -> str:
        return f"{agents.missing(store)}\n{cluster.state()}\n{controllers.log()[-2000:]}"

    try:
        controllers.start()
        controllers.start()
        agents.publish(10)
        until(lambda: agents.complete(store), seen=seen)
        for node in cluster.nodes:
            wait_for_queues(node)
            agents.publish(10)
            node.kill()
            before = agents.taken(store)
            agents.publish(20)
            until(lambda: agents.complete(store), seen=seen)  # with two of three
            assert agents.taken(store) > before
            node.start(mapper=False)
            until(cluster.whole, seen=seen)
        agents.publish(10)
        until(lambda: agents.complete(store), seen=seen)
        agents.check_events(store)
        until(lambda: drained(cluster), seen=seen)
        assert sorted(one.kind for one in happened(store)) == ["appeared", "appeared"]
    finally:
        agents.close()
        controllers.close()
        store.close()
        postgres.drop("memhint_cluster")


def test_what_a_broker_refuses_for_a_node_that_has_just_died_is_taken_while_it_is_dead(
    cluster: Cluster, tmp_path: Path
) -> None:
    first, *others = cluster.nodes
    with pika.BlockingConnection(pika.URLParameters(first.url(CONTROLLER))) as connection:
        declare(connection.channel())  # so the queues' leaders are there
    wait_for_queues(first)
    agents = Agents({host: [node.url(host) for node in others] for host in HOSTS}, tmp_path)
    try:
        until(agents.connected)
        first.kill()
        agents.record()
        until(agents.sent_all, seen=cluster.state)
    finally:
        agents.close()


@pytest.mark.parametrize("kind", [Postgres, MariaDB])
def test_a_database_that_is_killed_under_load_is_caught_up_with(
    kind: type[Postgres] | type[MariaDB], rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    rabbitmq.begin()
    server = kind()
    controllers = agents = store = None
    try:
        server.start()
        url = server.create("memhint")
        store = open_store(url)
        controllers = Controllers(configured(tmp_path, url, [rabbitmq.url(CONTROLLER)]))
        agents = Agents({host: [rabbitmq.url(host)] for host in HOSTS}, tmp_path)
        running = [controllers.start(), controllers.start()]
        until(controllers.serve)
        for _ in range(3):
            agents.publish(20)
            until(lambda: agents.taken(store) > 0)
            server.kill()
            agents.publish(20)
            time.sleep(0.5)  # away for a while: controllers meet it, agents do not
            server.start()
            until(lambda: agents.complete(store))
        assert [one.poll() for one in running] == [None, None]
        agents.check_events(store)
        until(lambda: rabbitmq.depth(STATE) == rabbitmq.depth(RECORD) == 0)
        assert rabbitmq.depth(DEAD) == 0
    finally:
        for one in (agents, controllers, store, server):
            if one is not None:
                one.close()
