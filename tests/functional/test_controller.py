"""Real controllers on a real broker and a real database, and what is left when some of them die."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.bus.topology import DEAD, RECORD, STATE
from memhint.store import Store, open_store
from tests.functional.fleet_parts import EPOCH, HOSTS, Controllers, links
from tests.functional.processes import ROOT
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.told import happened, pulls
from tests.unit import builders
from tests.waiting import until


@pytest.fixture(params=["postgresql"])
def config(request: pytest.FixtureRequest, rabbitmq: RabbitMQ, tmp_path: Path) -> Iterator[Path]:
    rabbitmq.begin()
    server = request.getfixturevalue("postgres")
    name = "memhint_controllers"
    path = tmp_path / "memhint.conf"
    path.write_text(
        f"[store]\nurl = {server.create(name)}\n"
        f"[bus]\nurls = {rabbitmq.url(CONTROLLER)}\nheartbeat = 10\nbackoff_max = 1\n"
        "[controller]\nsweep = 0.5\nbatch = 10\n"
    )
    yield path
    server.drop(name)


@pytest.fixture
def store(config: Path) -> Iterator[Store]:
    opened = open_store(config.read_text().split("url = ")[1].split("\n")[0])
    yield opened
    opened.close()


@pytest.fixture
def controllers(config: Path) -> Iterator[Controllers]:
    several = Controllers(config)
    yield several
    several.close()


@pytest.fixture
def agents(rabbitmq: RabbitMQ, tmp_path: Path) -> Iterator[dict[str, RabbitPublisher]]:
    made = {}
    for host in HOSTS:
        spool = Spool(tmp_path / f"{host}.db", 10_000, 2**24)
        made[host] = RabbitPublisher(links(rabbitmq, host), host, EPOCH, spool, flush=0.0)
        made[host].start()
    yield made
    for publisher in made.values():
        publisher.close()


def test_nothing_is_lost_or_counted_twice_when_controllers_and_broker_are_killed(
    controllers: Controllers, agents: dict[str, RabbitPublisher], rabbitmq: RabbitMQ, store: Store
) -> None:
    began = time.time()
    sent: list[float] = []

    def publish(number: int) -> None:
        for _ in range(number):
            sent.append(began + len(sent))
            for host, agent in agents.items():
                agent.publish(builders.report(host=host, epoch=EPOCH, sequence=len(sent), at=sent[-1], period=600.0))
                agent.record(host, sent[-1], [builders.lever_state()])

    def taken(host: str) -> list[float]:
        return [point.at for point in store.history.of(host)]

    first = controllers.start()
    controllers.start()
    publish(20)
    until(lambda: all(len(taken(host)) > 5 for host in HOSTS))
    publish(20)
    first.kill()
    publish(20)
    until(lambda: all(len(taken(host)) > 45 for host in HOSTS))
    rabbitmq.kill()
    publish(20)
    rabbitmq.start()
    controllers.start()
    publish(20)
    until(lambda: all(taken(host) == sent for host in HOSTS))
    until(lambda: [one.sequence for one in store.fleet.hosts()] == [len(sent)] * 2)
    # What belongs to one cycle may come in several messages, its events last.
    until(lambda: len(pulls(store)) >= len(sent) * len(HOSTS))
    events = pulls(store)
    assert sorted((one.host, one.at) for one in events) == sorted((host, at) for host in HOSTS for at in sent)
    assert [one.lost for one in store.fleet.hosts()] == [0, 0]
    until(lambda: rabbitmq.depth(STATE) == rabbitmq.depth(RECORD) == 0)
    assert rabbitmq.depth(DEAD) == 0
    assert sorted(one.kind for one in happened(store)) == ["appeared", "appeared"]


def test_several_controllers_tell_once_that_a_host_is_silent_and_end_when_they_are_told_to(
    controllers: Controllers, agents: dict[str, RabbitPublisher], store: Store
) -> None:
    running = [controllers.start() for _ in range(2)]
    until(controllers.serve)  # they know what to do when they are told to end
    agents["host-a"].publish(builders.report(host="host-a", epoch=EPOCH, sequence=1, at=time.time(), period=600.0))
    until(lambda: len(store.fleet.hosts()) == 1)
    agents["host-b"].publish(builders.report(host="host-b", epoch=EPOCH, sequence=1, at=time.time(), period=10.0))
    until(lambda: [one.kind for one in happened(store, "host-b")][:1] == ["silent"])
    agents["host-b"].publish(builders.report(host="host-b", epoch=EPOCH, sequence=2, at=time.time(), period=600.0))
    until(lambda: happened(store, "host-b")[0].kind == "returned")
    assert [one.kind for one in happened(store, "host-b")] == ["returned", "silent", "appeared"]
    assert [one.kind for one in happened(store, "host-a")] == ["appeared"]
    for process in running:
        process.send_signal(signal.SIGTERM)
    assert [process.wait(60) for process in running] == [0, 0]


def test_a_controller_without_a_broker_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "memhint.conf"
    path.write_text(f"[store]\nurl = sqlite:///{tmp_path}/memhint.db\n")
    command = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(path), "controller"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "[bus] urls is empty" in done.stderr
