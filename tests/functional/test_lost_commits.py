"""A database that goes back: a standby that had not heard of the last commits takes over while controllers write."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.servers.mariadb import MariaDB
from lab.servers.postgres import Postgres
from memhint.agent.commands import Commands
from memhint.api.handlers.stream import looker
from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.bus.topology import DEAD, RECORD, STATE
from memhint.objects.epoch import new_epoch
from memhint.objects.policy import Origin
from memhint.objects.provider import NovaCompute, Tenure
from memhint.objects.units import MIB
from memhint.store import Store, open_store
from memhint.store.errors import ChangesExpired
from memhint.store.log import Log
from tests.functional.api_server import ApiServer
from tests.functional.fleet_parts import HOSTS, Controllers, links
from tests.functional.servers.placement import Placement
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.functional.servers.running import running
from tests.unit import builders
from tests.waiting import until

TOTAL = 10240  # MiB of each host


class Agent:
    """A host that reports, in as many lives as a test gives it."""

    def __init__(self, broker: RabbitMQ, host: str, provider: str, place: Path) -> None:
        self._links, self._place = links(broker, host), place
        self.host, self.provider = host, provider
        self.sequence, self._epoch = 0, ""
        self._publisher: RabbitPublisher | None = None
        self.live()

    def live(self) -> None:
        """Begin another life."""
        self.close()
        self._epoch, self.sequence = new_epoch(time.time(), self._epoch, "0000000a"), 0
        spool = Spool(self._place / f"{self.host}.db", 10_000, 2**24)
        self._publisher = RabbitPublisher(self._links, self.host, self._epoch, spool, flush=0.0)
        self._publisher.start()

    def report(self, headroom: int) -> None:
        """:param headroom: MiB"""
        assert self._publisher is not None
        self.sequence += 1
        at = time.time()
        made = builders.report(
            host=self.host,
            epoch=self._epoch,
            sequence=self.sequence,
            at=at,
            period=60.0,
            plan=builders.plan(capacity=builders.capacity(headroom=headroom * MIB)),
            nova=NovaCompute(self.provider),
        )
        self._publisher.publish(made)
        self._publisher.record(self.host, at, [builders.lever_state()])

    def known(self, store: Store) -> bool:
        """Whether its newest report is the store's."""
        return (self._epoch, self.sequence) in [(one.epoch, one.sequence) for one in store.fleet.hosts()]

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.close()


@pytest.fixture
def server() -> Iterator[Postgres]:
    with running(Postgres()) as server:
        yield server


@pytest.fixture
def placement(mariadb: MariaDB) -> Iterator[Placement]:
    with running(Placement(mariadb.create("placement_lost").replace("mariadb+", "mysql+"))) as server:
        yield server
        mariadb.drop("placement_lost")


def test_a_database_that_lost_its_last_commits_is_caught_up_with(
    server: Postgres, placement: Placement, rabbitmq: RabbitMQ, tmp_path: Path
) -> None:
    rabbitmq.begin()
    url = server.create("memhint")
    path = tmp_path / "memhint.conf"
    path.write_text(
        f"[store]\nurl = {url}\n[bus]\nurls = {rabbitmq.url(CONTROLLER)}\nheartbeat = 10\nbackoff_max = 1\n"
        "[controller]\nsweep = 0.5\nbatch = 10\n"
        f"[openstack]\ncapacity = write\nauth_type = admin_token\ntoken = admin\nplacement_url = {placement.url}\n"
        "interval = 0.2\n"
    )
    store = open_store(url)
    providers = {host: placement.add(host, TOTAL) for host in HOSTS}
    agents = {host: Agent(rabbitmq, host, providers[host], tmp_path) for host in HOSTS}
    controllers, api = Controllers(path), ApiServer(tmp_path, url)

    def ratios() -> dict[str, float]:
        return {host: placement.ratio(provider) for host, provider in providers.items()}

    def standings() -> dict[str, Tenure]:
        return {one.host: one.tenure for one in store.capacities.all()}

    def settled(headroom: int) -> None:
        until(lambda: all(one.known(store) for one in agents.values()))
        until(lambda: ratios() == dict.fromkeys(HOSTS, pytest.approx(headroom / TOTAL)))
        until(lambda: standings() == dict.fromkeys(HOSTS, Tenure.MANAGED))

    try:
        running = [controllers.start(), controllers.start()]
        until(controllers.serve)
        for one in agents.values():
            one.report(5120)
        settled(5120)
        server.kill()
        server.keep()
        server.start()

        # What is lost: reports, another life of an agent, a ratio, an operator's wish, and what clients were told.
        agents["host-a"].live()
        for headroom in (6144, 7168, 8192):
            for one in agents.values():
                one.report(headroom)
            settled(headroom)
        wished = store.central_policies.set(builders.WEB, {"reporting": "off"})
        hosts_token, vms_token = store.hosts_view.token(), store.domains.token()
        look = looker(store, Log(store.database))
        stream = look(None).token
        agent_store = open_store(f"sqlite:///{tmp_path}/agent.db", host="host-a")
        commands = Commands(agent_store, lambda: None)
        command = {"domain": builders.WEB, "values": dict(wished.values), "version": wished.version}
        assert commands.policy(command)["applied"]
        server.kill()
        server.go_back()
        server.start()

        # The next report of each is taken. The ratio stands where it should: that it is memhint's is known again.
        agents["host-a"].report(8192)
        until(lambda: agents["host-a"].known(store))
        agents["host-b"].report(8192)
        settled(8192)
        # Who knows what was lost is told to begin again, however much has been kept since.
        for _ in range(20):
            agents["host-b"].report(8192)
            until(lambda: agents["host-b"].known(store))
        with pytest.raises(ChangesExpired):
            store.hosts_view.changed(hosts_token)
        with pytest.raises(ChangesExpired):
            store.domains.changed(vms_token)
        with pytest.raises(ChangesExpired):
            look(stream)
        status, body = api.get(f"/v1/hosts?changed_since={hosts_token}")
        assert (status, json.loads(body)["errors"][0]["code"]) == (410, "memhint.changed_since.expired")
        now = store.hosts_view.token()
        assert store.hosts_view.changed(now).items == ()
        # What an operator wishes now is newer to the host than what was lost.
        again = store.central_policies.set(builders.WEB, {"reporting": "on"})
        assert commands.policy({**command, "values": dict(again.values), "version": again.version})["applied"]
        assert agent_store.policies.inputs()[builders.WEB][Origin.OPERATOR] == {"reporting": "on"}
        agent_store.close()
        for headroom in (2048, 4096):
            for one in agents.values():
                one.report(headroom)
            settled(headroom)
        assert {one.name for one in store.hosts_view.changed(now).items} == set(HOSTS)
        assert [one.poll() for one in running] == [None, None]
        assert api.get("/healthz")[0] == 200
        until(lambda: rabbitmq.depth(STATE) == rabbitmq.depth(RECORD) == 0)
        assert rabbitmq.depth(DEAD) == 0
    finally:
        for one in agents.values():
            one.close()
        controllers.close()
        api.stop()
        store.close()
