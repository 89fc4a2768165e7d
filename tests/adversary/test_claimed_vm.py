"""A host that was taken over says that it has a VM of another host: with wishes of an operator, for some project."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.objects.instance import Instance
from memhint.objects.policy import Origin, effective
from memhint.store import Store, open_store
from tests.functional.api_server import ApiServer
from tests.functional.fleet_parts import EPOCH, Controllers, links
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.unit import builders
from tests.unit.api.site import OTHER, OWN
from tests.unit.builders import WEB
from tests.waiting import until

HONEST, HOSTILE = "host-b", "host-a"
FORGED = {"guest_actions": "allow", "swap_out": "allow", "dedup": "on", "project": OTHER}


class Site:
    """A broker, a controller, an API, and two hosts that say that they have one VM."""

    def __init__(self, broker: RabbitMQ, place: Path) -> None:
        url = f"sqlite:///{place}/memhint.db"
        config = place / "controller.conf"
        bus = f"[bus]\nurls = {broker.url(CONTROLLER)}\nbackoff_max = 1\n"
        config.write_text(f"[store]\nurl = {url}\n{bus}[controller]\nsweep = 0.5\n")
        self.store: Store = open_store(url)
        self.controllers = Controllers(config)
        self.controllers.start()
        self.agents = {}
        for host in (HONEST, HOSTILE):
            spool = Spool(place / f"{host}.db", 10_000, 2**24)
            self.agents[host] = RabbitPublisher(links(broker, host), host, EPOCH, spool, flush=0.0)
            self.agents[host].start()
        self.api = ApiServer(place, url, more=f"{bus}[controller]\ncommand_deadline = 1\n")
        self.sequence = 0

    def report(self, host: str, project: str, wishes: dict[str, str]) -> None:
        """Say that the host has the VM, and wait until it is known."""
        self.sequence += 1
        (one,) = (one for one in builders.report().domains if one.observation.uuid == WEB)
        facts = replace(one.observation.facts, project=project)
        policy = effective({Origin.OPERATOR: wishes} if wishes else {})
        one = replace(one, observation=replace(one.observation, facts=facts), policy=policy)
        self.agents[host].publish(
            builders.report(host=host, epoch=EPOCH, sequence=self.sequence, at=time.time(), domains=(one,))
        )
        until(lambda: any((known.name, known.sequence) == (host, self.sequence) for known in self.store.fleet.hosts()))

    def put(self, values: dict[str, str | None]) -> tuple[int, Any]:
        """Change the VM's policy as an admin."""
        connection = self.api.connection()
        try:
            headers = {"X-Auth-Token": self.api.tokens["admin"], "Content-Type": "application/json"}
            connection.request("PUT", f"/v1/domains/{WEB}/policy", json.dumps({"policy": values}), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def close(self) -> None:
        self.api.close()
        for agent in self.agents.values():
            agent.close()
        self.controllers.close()
        self.store.close()


@pytest.fixture
def site(rabbitmq: RabbitMQ, tmp_path: Path) -> Iterator[Site]:
    rabbitmq.begin()
    made = Site(rabbitmq, tmp_path)
    yield made
    made.close()


def test_no_wish_is_taken_over_from_who_claims_a_vm(site: Site) -> None:
    site.report(HONEST, OWN, {})
    site.report(HOSTILE, OTHER, FORGED)
    status, said = site.put({"min_mb": "64"})
    if status == 409:  # it is the hostile host's word that is shown, and none of it is taken over in silence
        assert f"on {HOSTILE} an operator wishes" in said["errors"][0]["detail"]
        status, said = site.put({"min_mb": "64", **dict.fromkeys(FORGED)})
    assert status == 200
    wishes = site.store.central_policies.of(WEB)
    assert wishes is not None
    assert wishes.values == {"min_mb": "64"}


def test_the_vms_own_host_is_asked_where_nova_says_which_that_is(site: Site) -> None:
    site.report(HONEST, OWN, {})
    site.report(HOSTILE, OTHER, FORGED)
    _nova_says(site, Instance(WEB, OWN, f"{HONEST}.example.org"))
    status, said = site.put({"min_mb": "64"})
    assert status == 200
    assert HONEST in said["delivery"]["detail"]  # it is a publisher only, and takes no commands
    wishes = site.store.central_policies.of(WEB)
    assert wishes is not None
    assert wishes.values == {"min_mb": "64"}


@pytest.mark.parametrize("by_nova", [False, True])
def test_a_project_is_shown_no_vm_by_a_hosts_word(site: Site, by_nova: bool) -> None:
    site.report(HONEST, OWN, {"min_mb": "64"})
    site.report(HOSTILE, OTHER, FORGED)
    if by_nova:
        _nova_says(site, Instance(WEB, OWN, HONEST))
    for path in (f"/v1/domains/{WEB}", f"/v1/domains/{WEB}/policy", f"/v1/domains/{WEB}/history"):
        assert site.api.get(path, "other")[0] == 404
        assert site.api.get(path, "own")[0] == (200 if by_nova else 404)
    status, said = site.api.get("/v1/domains", "other")
    assert (status, json.loads(said)["domains"]) == (200, [])


def test_what_an_operator_set_on_the_host_ends_by_name_only(site: Site) -> None:
    site.report(HONEST, OWN, {"overcommit": "deny"})
    status, said = site.put({"min_mb": "64"})
    assert (status, said["errors"][0]["code"]) == (409, "memhint.policy.on_host")
    assert "overcommit=deny" in said["errors"][0]["detail"]
    assert site.store.central_policies.of(WEB) is None
    assert site.put({"min_mb": "64", "overcommit": "deny"})[0] == 200


def _nova_says(site: Site, one: Instance) -> None:
    look = site.store.instances.begin()
    assert look is not None
    site.store.instances.keep(look, [one])
    site.store.instances.end(look, whole=True, pause=600.0)
