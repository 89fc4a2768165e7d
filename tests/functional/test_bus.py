"""Agents and consumers over a real RabbitMQ, and what happens to it."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pika
import pytest

from memhint.bus.asker import Asker
from memhint.bus.commands import Commander, CommandStatus
from memhint.bus.courier import Command
from memhint.bus.envelope import Envelope, MessageKind, encode
from memhint.bus.errors import BusError, CommandTimeout, HostAway
from memhint.bus.link import LinkSettings, connect
from memhint.bus.rabbit_consumer import HandlerUnavailable, RabbitConsumer
from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.bus.topology import DEAD, RECORD, REPLY, REPORT, STATE, command_queue, declare
from tests.functional.fleet_parts import EPOCH, links
from tests.functional.processes import ROOT
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.unit import builders
from tests.unit.builders import NOW
from tests.waiting import until


class Kept:
    """A handler that keeps what it is given."""

    def __init__(self) -> None:
        self.got: list[Envelope] = []
        self.poisoned: list[tuple[str, str]] = []
        self.away = False
        self.asked = self.tried = 0  # whether it could keep something, and to keep it
        self.stop = False
        self._thread: threading.Thread | None = None

    def ready(self) -> None:
        self.asked += 1
        if self.away:
            raise HandlerUnavailable("the test says so")

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        self.tried += 1
        if self.away:
            raise HandlerUnavailable("the test says so")
        self.got += batch
        return ["never" if one.sequence == 666 else None for one in batch]

    def poison(self, user: str, why: str) -> None:
        self.poisoned.append((user, why))

    def over(self, user: str) -> None:
        raise AssertionError(user)

    def tick(self) -> None:
        """Nothing else to do."""

    def sequences(self, kind: MessageKind = MessageKind.STATE) -> list[int]:
        return [one.sequence for one in self.got if one.kind is kind]

    def points(self) -> list[float]:
        return [point.at - NOW for one in self.got if one.kind is MessageKind.RECORD for point in one.body.points]

    def events(self) -> list[float]:
        return [event.at - NOW for one in self.got if one.kind is MessageKind.RECORD for event in one.body.events]

    def start(self, broker: RabbitMQ) -> None:
        consumer = RabbitConsumer(links(broker, CONTROLLER), self, batch=10, stopped=lambda: self.stop)
        self._thread = threading.Thread(target=consumer.run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self.stop = True
        if self._thread is not None:
            self._thread.join(30)


class Slow(Kept):
    """One that takes so many seconds for each batch."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.at_once = 0
        self._seconds = seconds
        self._at_work = 0

    def take(self, batch: Sequence[Envelope]) -> Sequence[str | None]:
        self._at_work += 1
        self.at_once = max(self.at_once, self._at_work)
        time.sleep(self._seconds)
        self._at_work -= 1
        return super().take(batch)


@pytest.fixture
def broker(rabbitmq: RabbitMQ) -> RabbitMQ:
    rabbitmq.begin()
    return rabbitmq


@pytest.fixture
def kept(broker: RabbitMQ) -> Iterator[Kept]:
    handler = Kept()
    handler.start(broker)
    yield handler
    handler.end()


@pytest.fixture
def agent(broker: RabbitMQ, tmp_path: Path) -> Iterator[RabbitPublisher]:
    publisher = make_agent(broker, tmp_path)
    publisher.start()
    until(lambda: publisher.counts.connected)
    yield publisher
    publisher.close()


def make_agent(broker: RabbitMQ, tmp_path: Path, **changes: object) -> RabbitPublisher:
    spool = Spool(tmp_path / "spool.db", 1000, 2**20)
    handlers = {"echo": lambda words: words, "fail": lambda _: 1 / 0}
    return RabbitPublisher(links(broker, "host-a"), "host-a", EPOCH, spool, flush=0.0, handlers=handlers, **changes)


def report(sequence: int, **changes: object):
    return builders.report(epoch=EPOCH, sequence=sequence, at=NOW + sequence, **changes)


def test_what_an_agent_publishes_arrives_whole(kept: Kept, agent: RabbitPublisher) -> None:
    agent.publish(report(1))
    agent.record("host-a", NOW + 1, [builders.lever_state()])
    # State, point and event may come in three messages and in any order: an agent sends what is there at the moment.
    until(lambda: len(kept.sequences()) >= 1 and len(kept.points()) >= 1 and len(kept.events()) >= 1)
    assert (kept.sequences(), kept.points(), kept.events()) == ([1], [1], [1])
    assert [one.body for one in kept.got if one.kind is MessageKind.STATE] == [report(1)]
    until(lambda: agent.counts.waiting == 0)
    assert agent.counts.lost == 0


def test_an_agent_works_on_without_its_broker_and_nothing_kept_is_lost_or_doubled(
    kept: Kept, agent: RabbitPublisher, broker: RabbitMQ
) -> None:
    agent.publish(report(1))
    until(lambda: kept.points() == [1])
    broker.kill()
    for sequence in range(2, 40):
        agent.publish(report(sequence, period=600.0))  # so that it is still worth something when the broker is back
    until(lambda: not agent.counts.connected)
    assert agent.counts.waiting >= 37
    broker.start()
    until(lambda: kept.sequences()[-1:] == [39] and set(kept.points()) == set(range(1, 40)))
    states = kept.sequences()
    assert states == sorted(states)
    assert len(states) < 10, "the newest replaces those that nobody has seen"
    until(lambda: agent.counts.waiting == 0)
    assert agent.counts.lost == 0


def test_an_agent_starts_and_stops_where_there_is_no_broker_at_all(tmp_path: Path) -> None:
    nobody = LinkSettings(("amqp://host-a:x@127.0.0.1:9/memhint",), timeout=1, backoff_max=0.5)
    spool = Spool(tmp_path / "spool.db", 3, 2**20)
    publisher = RabbitPublisher(nobody, "host-a", EPOCH, spool)
    publisher.start()
    for sequence in range(5):
        publisher.publish(report(sequence))
    assert (publisher.counts.waiting, publisher.counts.lost, publisher.counts.replaced) == (3, 2, 4)
    publisher.close()
    again = Spool(tmp_path / "spool.db", 3, 2**20)
    assert (len(again), again.lost) == (3, 2)
    again.close()


def test_a_state_that_nobody_takes_in_time_expires_and_is_no_dead_letter(broker: RabbitMQ, tmp_path: Path) -> None:
    publisher = make_agent(broker, tmp_path)
    publisher.start()
    until(lambda: publisher.counts.connected)  # its time to live is short, and begins when it is published
    made: list[int] = []
    while not publisher.counts.states:  # on a machine that stalls one may grow too old before it is even sent
        made.append(len(made) + 1)
        publisher.publish(report(made[-1], period=0.5))
        until(lambda: publisher.counts.states + publisher.counts.expired == len(made))
    until(lambda: publisher.counts.waiting == 0)
    publisher.close()
    kept = Kept()
    until(lambda: broker.depth(STATE) == 0)
    kept.start(broker)
    until(lambda: kept.points() == made)
    assert kept.sequences() == []
    assert broker.depth(DEAD) == 0
    kept.end()


def test_a_message_that_is_none_becomes_a_dead_letter_and_the_next_ones_are_taken(
    kept: Kept, agent: RabbitPublisher, broker: RabbitMQ
) -> None:
    with broker.connect("host-b") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for body in (b"", b"\xff\x00", b"{}", json.dumps({"memhint": 1, "kind": "state"}).encode()):
            channel.basic_publish(REPORT, "state", body, pika.BasicProperties(user_id="host-b"), mandatory=True)
    agent.publish(report(666))
    until(lambda: kept.sequences() == [666])
    agent.publish(report(667))
    until(lambda: kept.sequences() == [666, 667])
    until(lambda: broker.depth(DEAD) >= 5)
    assert broker.depth(STATE) == 0
    assert [user for user, _ in kept.poisoned if user == "host-b"] == ["host-b"] * 4
    assert ("host-a", "never") in kept.poisoned


def test_nobody_reports_for_another_host(kept: Kept, broker: RabbitMQ) -> None:
    forged, encoding = encode(Envelope(MessageKind.STATE, "host-a", EPOCH, 1, 0.0, report(1)))
    for user in (None, "host-b"):
        with broker.connect("host-b") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            properties = pika.BasicProperties(user_id=user, content_encoding=encoding)
            channel.basic_publish(REPORT, "state", forged, properties, mandatory=True)
    until(lambda: [user for user, _ in kept.poisoned] == ["", "host-b"])
    with broker.connect("host-b") as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="user_id"):
            channel.basic_publish(REPORT, "state", forged, pika.BasicProperties(user_id="host-a"), mandatory=True)
    assert kept.got == []


def _read(channel, queue: str) -> None:
    channel.basic_get(queue)


def _write(channel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"{}", mandatory=True)


@pytest.mark.parametrize("what", [_read, _write], ids=["read", "write"])
@pytest.mark.parametrize("queue", [STATE, RECORD, DEAD, command_queue("host-a")])
def test_a_hosts_user_reads_and_commands_nobody(broker: RabbitMQ, queue: str, what) -> None:
    refused = pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED")
    with broker.connect("host-b") as connection, refused:
        what(connection.channel(), queue)


def test_a_record_queue_that_is_full_holds_up_neither_reports_nor_commands(
    broker: RabbitMQ, agent: RabbitPublisher
) -> None:
    where = ["-p", "memhint", "--priority", "9", "--apply-to", "queues"]
    broker.control("set_policy", *where, "full", r"^memhint\.record$", '{"max-length": 1}')
    commander, kept = Commander(links(broker, CONTROLLER)), Kept()
    try:
        connection = agent._connection
        for sequence in range(1, 11):
            agent.publish(report(sequence, period=600.0))
            until(lambda sequence=sequence: agent.counts.states == sequence)
        assert commander.ask("host-a", "echo", {"bytes": 5}, deadline=20).outcome is CommandStatus.DONE
        assert agent._connection is connection
        assert agent.counts.waiting >= 5
    finally:
        commander.close()
        broker.control("clear_policy", "-p", "memhint", "full")
    kept.start(broker)
    until(lambda: agent.counts.waiting == 0 and len(kept.points()) >= 10)
    assert kept.points() == list(range(1, 11))
    assert agent.counts.lost == 0
    kept.end()


def test_an_agent_hangs_up_on_a_broker_that_never_confirms(
    kept: Kept, agent: RabbitPublisher, broker: RabbitMQ
) -> None:
    agent.publish(report(1, period=600.0))
    until(lambda: kept.points() == [1])
    agent._answer = 2.0  # seconds; as shipped a minute
    connection = agent._connection
    broker.control("eval", "sys:suspend('memhint_memhint.record').")  # heartbeats go on
    try:
        agent.publish(report(2, period=600.0))
        until(lambda: agent._connection not in (None, connection))
    finally:
        broker.control("eval", "sys:resume('memhint_memhint.record').")
    until(lambda: set(kept.points()) == {1, 2} and agent.counts.waiting == 0)
    assert agent.counts.lost == 0


def test_a_question_to_a_broker_that_is_frozen_ends(broker: RabbitMQ, agent: RabbitPublisher) -> None:
    patient = replace(links(broker, CONTROLLER), heartbeat=600, timeout=2.0)
    asker = Asker(patient, deadline=2.0)
    try:
        assert asker.ask(Command("host-a", "echo", "", {"bytes": 5})).outcome is CommandStatus.DONE
        assert broker.process is not None
        os.killpg(broker.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(BusError):
                asker.ask(Command("host-a", "echo", "", {"bytes": 5}))
        finally:
            os.killpg(broker.process.pid, signal.SIGCONT)
    finally:
        asker.close()


def test_messages_wait_while_the_handler_has_no_store_and_come_once(
    kept: Kept, agent: RabbitPublisher, broker: RabbitMQ
) -> None:
    kept.away = True
    agent.publish(report(1))
    until(lambda: agent.counts.states == 1 and agent.counts.records == 1)
    assert kept.got == []
    kept.away = False
    until(lambda: kept.sequences() == [1] and kept.points() == [1])
    until(lambda: broker.depth(STATE) == broker.depth(RECORD) == broker.depth(DEAD) == 0)


def test_what_cannot_be_kept_is_not_delivered_again_and_again(
    kept: Kept, agent: RabbitPublisher, broker: RabbitMQ
) -> None:
    kept.away = True
    agent.publish(report(1, period=600.0))
    until(lambda: kept.tried >= 1)
    for _ in range(2):  # as a broker does that is drained, and with what waits for half an hour
        asked = kept.asked
        broker.control("close_all_user_connections", CONTROLLER, "maintenance")
        until(lambda asked=asked: kept.asked > asked)
        tried = kept.tried
        until(lambda asked=asked: kept.asked > asked + 2)
        assert kept.tried == tried
    kept.away = False
    until(lambda: kept.sequences() == [1] and kept.points() == [1])


def test_what_a_killed_consumer_had_not_acknowledged_comes_to_another_one(
    agent: RabbitPublisher, broker: RabbitMQ
) -> None:
    command = [sys.executable, "-u", "-m", "tests.functional.processes", "consume_and_hang", broker.url(CONTROLLER)]
    hanging = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    agent.publish(report(1, period=600.0))  # so that it is still worth something when the second one has it
    assert hanging.stdout is not None
    assert hanging.stdout.readline() == "holding\n"
    hanging.kill()
    hanging.wait()
    kept = Kept()
    kept.start(broker)
    until(lambda: kept.sequences() == [1])
    kept.end()


@pytest.mark.parametrize("queue", [STATE, RECORD])
def test_a_consumer_whose_queue_is_deleted_makes_it_again(
    kept: Kept, agent: RabbitPublisher, broker: RabbitMQ, queue: str
) -> None:
    agent.publish(report(1))
    until(lambda: kept.sequences() == [1] and kept.points() == [1])
    with broker.connect() as connection:
        connection.channel().queue_delete(queue)
    agent.publish(report(2, period=600.0))
    until(lambda: kept.sequences() == [1, 2] and kept.points() == [1, 2])


def test_a_handler_that_takes_long_costs_no_connection(broker: RabbitMQ, tmp_path: Path) -> None:
    slow = Slow(seconds=6.0)
    heard_each_second = replace(links(broker, CONTROLLER), heartbeat=1)
    consumer = RabbitConsumer(heard_each_second, slow, batch=1, stopped=lambda: slow.stop)
    thread = threading.Thread(target=consumer.run)
    thread.start()
    publisher = make_agent(broker, tmp_path)
    publisher.start()
    publisher.publish(report(1, period=600.0))
    until(lambda: len(slow.got) >= 2)  # the state and its point
    until(lambda: broker.depth(STATE) == broker.depth(RECORD) == 0)
    slow.stop = True
    thread.join()
    publisher.close()
    assert sorted(str(one.kind) for one in slow.got) == ["record", "state"], "delivered once each"
    assert slow.at_once == 1


def test_an_agent_whose_commands_end_listens_again(
    broker: RabbitMQ, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memhint.bus.rabbit_publisher._LISTEN_AGAIN", 0.5)
    agent = make_agent(broker, tmp_path)
    agent.start()
    until(lambda: agent.counts.connected)
    with broker.connect() as connection:
        channel = connection.channel()
        channel.exchange_delete(REPLY)
        # An answer that cannot be sent ends the channel that its question came by.
        asked = pika.BasicProperties(reply_to="nobody", correlation_id="1", user_id=CONTROLLER)
        channel.basic_publish("", command_queue("host-a"), b"{}", asked, mandatory=True)
        until(lambda: not listened(channel))
        declare(connection.channel())
    commander = Commander(links(broker, CONTROLLER))

    def answers() -> bool:
        try:
            return commander.ask("host-a", "echo", deadline=20).outcome is CommandStatus.DONE
        except HostAway:
            return False

    until(answers)
    commander.close()
    assert agent.counts.connected
    agent.close()


def listened(channel: pika.adapters.blocking_connection.BlockingChannel) -> bool:
    """Whether a command would reach the agent of host-a."""
    channel.confirm_delivery()
    try:
        channel.basic_publish("", command_queue("host-a"), b"", mandatory=True)
    except pika.exceptions.UnroutableError:
        return False
    return True


def test_a_command_goes_to_one_host_and_is_answered(broker: RabbitMQ, agent: RabbitPublisher) -> None:
    commander = Commander(links(broker, CONTROLLER))
    done = commander.ask("host-a", "echo", {"bytes": 5}, deadline=20, epoch=EPOCH)
    assert (done.outcome, done.epoch, done.result) == (CommandStatus.DONE, EPOCH, {"bytes": 5})
    assert commander.ask("host-a", "echo", deadline=20, epoch="another").outcome is CommandStatus.EPOCH
    assert commander.ask("host-a", "format", deadline=20).outcome is CommandStatus.UNKNOWN
    failed = commander.ask("host-a", "fail", deadline=20)
    assert (failed.outcome, failed.detail) == (CommandStatus.FAILED, "ZeroDivisionError: division by zero")
    with pytest.raises(HostAway):
        commander.ask("host-b", "echo", deadline=20)
    commander.close()


def test_a_command_that_nobody_answers_ends_at_its_deadline(broker: RabbitMQ) -> None:
    with broker.connect("host-b") as mute:
        mute.channel().queue_declare(command_queue("host-b"), exclusive=True)
        commander = Commander(links(broker, CONTROLLER))
        with pytest.raises(CommandTimeout, match="host-b"):
            commander.ask("host-b", "echo", deadline=0.5)
        commander.close()


def test_a_question_does_not_wait_for_a_broker_without_memory(broker: RabbitMQ, agent: RabbitPublisher) -> None:
    asker = Asker(replace(links(broker, CONTROLLER), heartbeat=60), deadline=2.0)
    question = Command("host-a", "echo", "", {})
    assert asker.ask(question).outcome is CommandStatus.DONE
    broker.control("set_vm_memory_high_watermark", "0")
    try:
        began = time.monotonic()
        with pytest.raises(BusError):
            asker.ask(question)
        assert time.monotonic() - began < 30
    finally:
        broker.control("set_vm_memory_high_watermark", "0.6")
    until(lambda: asker.ask(question).outcome is CommandStatus.DONE)
    asker.close()


def test_tls_is_checked_against_the_certificates_that_were_named(broker: RabbitMQ, tmp_path: Path) -> None:
    named = replace(links(broker, "host-a"), urls=(broker.tls_url("host-a"),), ca_file=str(broker.ca))
    connect(named).close()
    with pytest.raises(BusError, match=r"certificate|CERTIFICATE"):
        connect(replace(named, ca_file=ssl.get_default_verify_paths().cafile or ""))
    with pytest.raises(BusError, match="cannot be used"):
        connect(replace(named, ca_file=str(tmp_path / "none.pem")))


def test_a_wrong_password_is_said_without_it(broker: RabbitMQ) -> None:
    with pytest.raises(BusError) as caught:
        connect(LinkSettings((broker.url("host-a", "not-this-one"),)))
    assert "ACCESS_REFUSED" in str(caught.value) or "Authentication" in str(caught.value)
    assert "not-this-one" not in str(caught.value)
