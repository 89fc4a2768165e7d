"""A fleet from end to end: an API's wishes, a broker, a controller, and a whole agent that is there or not."""

from __future__ import annotations

import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pika.exceptions import ChannelClosedByBroker

from memhint.bus.asker import Asker
from memhint.bus.courier import Command, Courier
from memhint.bus.errors import BusError
from memhint.bus.topology import command_queue
from memhint.conf.load import load
from memhint.controller.dispatch import Dispatch, WishedOnHost, dispatch_of
from memhint.controller.messages import interrupt_command, policy_command, reclaim_command
from memhint.controller.reconcile import operators
from memhint.objects.epoch import epoch_rank
from memhint.objects.reclaim import ReclaimRequest, ReclaimState, Stop
from memhint.objects.units import MIB
from memhint.objects.verdict import Reason
from memhint.planner.growth import table_of
from memhint.store import Store, open_store
from memhint.store.central_policies import Wishes
from memhint.store.reclaims import HostReclaim
from memhint.version import version
from tests.functional import one_agent
from tests.functional.fleet_parts import links
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.functional.test_controller import Controllers
from tests.told import pulls
from tests.unit.builders import WEB
from tests.waiting import until

_NOT_FOUND = 404  # as AMQP has it


class Site:
    """Everything of a fleet with one host."""

    def __init__(self, directory: Path, broker: RabbitMQ, url: str) -> None:
        self.config = directory / "controller.conf"
        self.config.write_text(
            f"[store]\nurl = {url}\n[bus]\nurls = {broker.url(CONTROLLER)}\nbackoff_max = 1\n"
            "[controller]\nsweep = 0.5\nresend = 1\ncommand_deadline = 60\n"
        )
        self.agents_config = directory / "agent.conf"
        self.agents_config.write_text(
            f"[DEFAULT]\nhost_name = host-a\nperiod = 1\n[store]\nurl = sqlite:///{directory}/agent.db\n"
            f"[bus]\nurls = {broker.url('host-a')}\nspool = {directory}/spool.db\nbackoff_max = 1\n"
            f"[virt]\nuri = test:///default\nrun_dir = {directory}/run\n[guest]\ninterval = 1\n"
            "[ladder]\nrungs =\n"  # where the machine of the tests is short of memory, the guest is not asked for it
        )
        self.broker = broker
        self.store: Store = open_store(url)
        self.controllers = Controllers(self.config)
        self.controllers.start()
        self.dispatch: Dispatch = dispatch_of(load([str(self.config)]), self.store)
        self.agent: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # While the broker holds the queue of the last life, the next one would get no commands for half a minute.
        until(lambda: not self.listens())
        began = int(time.time() * 1000)
        self.agent = one_agent.start(self.agents_config, "agent")
        until(lambda: epoch_rank(self.epoch()) >= began)  # of this life: a report of an earlier one may still come

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.agent is not None
        self.agent.send_signal(number)
        return self.agent.wait(60)

    def close(self) -> None:
        if self.agent is not None and self.agent.poll() is None:
            self.end()
        self.dispatch.close()
        self.controllers.close()
        self.store.close()

    def epoch(self) -> str:
        line = self.store.hosts_view.one("host-a")
        return "" if line is None else line.epoch

    def listens(self) -> bool:
        """Whether the broker has an agent to give commands to."""
        with self.broker.connect() as connection:
            try:
                connection.channel().queue_declare(command_queue("host-a"), passive=True)
            except ChannelClosedByBroker as error:
                return error.reply_code != _NOT_FOUND  # another code: it is there, and somebody else's alone
        return True

    def wishes(self) -> dict[str, str]:
        """What an operator wishes of the VM, as its host has it."""
        report = self.store.reports.newest("host-a")
        return {} if report is None or not report.domains else operators(report.domains[0].policy)

    def ask(self, time_to_live: float = 60.0, hold: float = 0.0, size: int | None = 64 * MIB) -> str:
        now, name = time.time(), str(uuid.uuid4())
        request = ReclaimRequest(name, WEB, size, 10.0, 60.0, "a test", "operator", now, now + time_to_live, hold=hold)
        assert self.dispatch.reclaim(request)[0].host == "host-a"
        return name

    def fill(self, size: int) -> None:
        """Have the guest read so much into its page cache."""
        wished = self.agents_config.with_name(one_agent.FILL)
        part = wished.with_suffix(".part")
        part.write_text(str(size))
        part.rename(wished)
        until(lambda: not wished.exists())

    def row(self, name: str) -> HostReclaim:
        found = self.store.reclaims.find(name)
        assert found is not None
        return found

    def ended(self, name: str) -> bool:
        return self.row(name).reclaim.state.ended


@pytest.fixture(params=["postgresql"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    server = request.getfixturevalue("postgres")
    yield server.create("memhint_dispatch")
    server.drop("memhint_dispatch")


@pytest.fixture
def site(rabbitmq: RabbitMQ, url: str, tmp_path: Path) -> Iterator[Site]:
    rabbitmq.begin()
    made = Site(tmp_path, rabbitmq, url)
    yield made
    made.close()


def test_a_wish_and_a_request_reach_the_agent_and_what_comes_of_them_comes_back(site: Site) -> None:
    site.start()
    until(lambda: (line := site.store.hosts_view.one("host-a")) is not None and line.state == "fresh")
    line = site.store.hosts_view.one("host-a")
    assert line is not None
    assert line.agent == version()
    refused = site.ask()
    until(lambda: site.ended(refused))
    assert (site.row(refused).reclaim.state, site.row(refused).reclaim.verdict.reason) == (
        ReclaimState.REFUSED,
        Reason.CONSENT,
    )
    assert site.dispatch.set_policy(WEB, {"guest_actions": "allow", "dedup": "off"}).taken
    until(lambda: site.wishes() == {"guest_actions": "allow", "dedup": "off"})
    assert site.dispatch.set_policy(WEB, {"dedup": None}).taken
    until(lambda: site.wishes() == {"guest_actions": "allow"})
    done = site.ask()
    until(lambda: site.ended(done))
    found = site.row(done).reclaim
    assert (found.state, found.reclaimed, found.request.by) == (ReclaimState.DONE, 64 * MIB, "operator")
    assert found.returned is not None
    # The record of actions goes both ways: to the host's own store and to the fleet's.
    own = open_store(f"sqlite:///{site.agents_config.parent}/agent.db", host="host-a")
    until(lambda: any(one.domain == WEB for one in pulls(site.store)))
    assert own.reclaims.get(done) is not None
    told = {(one.at, one.lever, one.domain) for one in pulls(own)}
    until(lambda: {(one.at, one.lever, one.domain) for one in pulls(site.store)} >= told)
    own.close()
    assert site.end() == 0


def test_what_is_asked_while_the_agent_is_away_is_done_when_it_is_back(site: Site) -> None:
    site.start()
    assert site.dispatch.set_policy(WEB, {"guest_actions": "allow"}).taken
    until(lambda: site.wishes() == {"guest_actions": "allow"})
    assert site.end() == 0
    until(lambda: not site.listens())  # the broker may learn a little later that its connection is gone
    delivery = site.dispatch.set_policy(WEB, {"reporting": "off"})
    assert not delivery.taken
    assert "no agent of host-a listens" in delivery.detail
    waits, mistake = site.ask(600.0), site.ask(600.0)
    taken_back, delivery = site.dispatch.interrupt(mistake, "a mistake")
    assert taken_back.interrupted == "a mistake"
    assert "no agent of host-a listens" in delivery.detail
    assert site.row(waits).reclaim.state is ReclaimState.QUEUED
    site.start()
    until(lambda: site.wishes() == {"guest_actions": "allow", "reporting": "off"})
    until(lambda: site.ended(waits) and site.ended(mistake))
    assert site.row(waits).reclaim.state is ReclaimState.DONE
    assert (site.row(mistake).reclaim.state, site.row(mistake).reclaim.verdict.reason) == (
        ReclaimState.FAILED,
        Reason.INTERRUPTED,
    )
    assert site.row(mistake).reclaim.calls == 0


def test_a_growth_table_reaches_the_agent_and_is_known_to_its_next_life(site: Site) -> None:
    def held() -> int | None:
        report = site.store.reports.newest("host-a")
        return None if report is None else report.growth

    site.start()
    until(lambda: held() == 0)
    site.store.growth.save(table_of(1_700_000_000, [{(0, 0): (5, 5 * 90)}] * 4))
    until(lambda: held() == 1_700_000_000)
    site.controllers.close()
    with open_store(f"sqlite:///{site.agents_config.parent}/agent.db", create=False).database.read() as connection:
        assert connection.exec_driver_sql("SELECT version FROM growth").scalar() == 1_700_000_000


def test_a_hold_is_carried_out_shown_and_taken_back_through_the_fleet(site: Site) -> None:
    site.start()
    site.dispatch.set_policy(WEB, {"guest_actions": "allow"})
    until(lambda: site.wishes() == {"guest_actions": "allow"})
    name = site.ask(hold=600.0, size=None)
    until(lambda: site.row(name).reclaim.state is ReclaimState.HOLDING)
    held = site.row(name).reclaim.held
    assert held is not None
    assert held.until - held.since == 600.0
    site.fill(300 * MIB)
    until(lambda: (now := site.row(name).reclaim.held) is not None and now.again == 300 * MIB)
    assert site.row(name).reclaim.state is ReclaimState.HOLDING
    site.dispatch.interrupt(name, "enough")
    until(lambda: site.ended(name))
    ended = site.row(name).reclaim
    assert ended.held is not None
    assert (ended.state, ended.held.stop) == (ReclaimState.DONE, Stop.INTERRUPTED)
    assert ended.verdict.detail.endswith("enough")
    # An agent that is told to end says of what it holds that it has ended.
    site.fill(300 * MIB)
    other = site.ask(hold=600.0, size=None)
    until(lambda: site.row(other).reclaim.state is ReclaimState.HOLDING)
    assert site.end() == 0
    site.start()
    until(lambda: site.ended(other))
    assert "stopped" in site.row(other).reclaim.verdict.detail


def test_what_is_sent_twice_or_late_or_to_another_life_changes_nothing(site: Site) -> None:
    site.start()
    site.dispatch.set_policy(WEB, {"guest_actions": "allow"})
    until(lambda: site.wishes() == {"guest_actions": "allow"})
    held = site.store.central_policies.of(WEB)
    assert held is not None
    done = site.ask()
    until(lambda: site.ended(done))
    ended = site.row(done)
    asker = Asker(links(site.broker, CONTROLLER), 20.0)
    try:
        now, epoch = time.time(), site.epoch()
        for _ in range(3):
            assert asker.ask(reclaim_command(ended, now, epoch)).outcome == "done"
            assert asker.ask(interrupt_command(ended, "too late", now, epoch)).outcome == "done"
        old = Wishes(WEB, held.version - 1, {"guest_actions": "deny"})
        assert asker.ask(policy_command("host-a", old, epoch)).result == {"applied": False}
        newer = Wishes(WEB, held.version + 1, {"guest_actions": "deny"})
        assert asker.ask(policy_command("host-a", newer, "another life")).outcome == "epoch"
        bad = Command("host-a", "policy", WEB, {"domain": WEB, "version": 2**60, "values": {"colour": "red"}}, epoch)
        reply = asker.ask(bad)
        assert reply.outcome == "failed"
        assert "not a policy key" in reply.detail
    finally:
        asker.close()
    again = site.ask()
    until(lambda: site.ended(again))
    assert site.row(again).reclaim.state is ReclaimState.DONE  # consent still holds
    assert site.row(done) == ended
    assert site.wishes() == {"guest_actions": "allow"}


def test_what_somebody_set_on_the_host_does_not_last_where_the_fleet_holds_the_vm(site: Site) -> None:
    site.start()
    own = open_store(f"sqlite:///{site.agents_config.parent}/agent.db", host="host-a")
    own.policies.set_operator(WEB, {"min_mb": "64"})
    until(lambda: site.wishes() == {"min_mb": "64"})
    with pytest.raises(WishedOnHost, match="min_mb=64"):  # neither taken over nor dropped unasked
        site.dispatch.set_policy(WEB, {"reporting": "off"})
    site.dispatch.set_policy(WEB, {"reporting": "off", "min_mb": "64"})
    until(lambda: site.wishes() == {"min_mb": "64", "reporting": "off"})
    own.policies.set_operator(WEB, {"reporting": "on"})
    until(lambda: site.wishes()["reporting"] == "on" or own.policies.inputs(WEB)[WEB] != {})
    until(lambda: "off" in own.policies.inputs(WEB)[WEB].get("operator", {}).get("reporting", ""))
    until(lambda: site.wishes() == {"min_mb": "64", "reporting": "off"})
    own.close()


def test_how_a_request_ended_is_told_after_the_broker_was_away(site: Site) -> None:
    site.start()
    site.dispatch.set_policy(WEB, {"guest_actions": "allow"})
    until(lambda: site.wishes() == {"guest_actions": "allow"})
    own = open_store(f"sqlite:///{site.agents_config.parent}/agent.db", host="host-a")
    name = site.ask(600.0)  # the agent is to say how it ended, however long the broker takes to come back
    site.broker.kill()
    try:
        until(lambda: (one := own.reclaims.get(name)) is not None and one.state.ended)
    finally:
        site.broker.start()
    until(lambda: site.ended(name))
    assert site.row(name).reclaim.state is ReclaimState.DONE
    own.close()


def test_a_courier_whose_broker_is_away_neither_waits_nor_fails(tmp_path: Path) -> None:
    from memhint.bus.link import LinkSettings

    settings = LinkSettings(("amqp://nobody:nothing@127.0.0.1:1/memhint",), timeout=1, backoff_max=0.1)
    courier = Courier(settings, 1.0)
    courier.start()
    for number in range(20_000):
        courier.send(Command("host-a", "policy", str(number), {}))
    courier.close()
    until(lambda: not courier.alive)  # it waits for it itself, but not for long
    with pytest.raises(BusError):
        Asker(settings, 1.0).ask(Command("host-a", "look", "", {}))
