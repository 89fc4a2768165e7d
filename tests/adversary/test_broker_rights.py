"""What the Ansible role has a broker load: a real one takes it, twice, and a host's user can do no more."""

from __future__ import annotations

import json

import jinja2
import pika
import pytest

from memhint.bus.topology import DEAD, RECORD, REPORT, STATE, command_queue, declare
from tests.functional.processes import ROOT
from tests.functional.servers.rabbitmq import RabbitMQ

TEMPLATES = ROOT / "etc" / "ansible" / "roles" / "memhint" / "templates"
HOST = "hv.1"


@pytest.fixture(scope="module")
def broker(rabbitmq: RabbitMQ) -> RabbitMQ:
    rendered = (
        jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=False)
        .get_template("broker.json.j2")
        .render(
            memhint_broker_vhost="memhint-role",
            memhint_broker_password="of the controller",
            memhint_broker_hosts=[{"name": HOST, "password": 'q"uote'}, {"name": "hv.2", "password": "b"}],
        )
    )
    json.loads(rendered)
    rabbitmq.place.write("memhint.json", rendered)
    for _ in range(2):
        rabbitmq.control("import_definitions", str(rabbitmq.place.path / "memhint.json"))
    with _as(rabbitmq, "memhint-controller", "of the controller") as connection:
        declare(connection.channel())
    return rabbitmq


def _as(broker: RabbitMQ, user: str, password: str) -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.port, "memhint-role", credentials=credentials)
    )


@pytest.mark.parametrize("queue", [STATE, RECORD, DEAD, command_queue("hv.2"), command_queue("hvx1")])
def test_hostile_host_reads_makes_or_fills_a_queue_that_is_not_its_own(broker: RabbitMQ, queue: str) -> None:
    for attempt in (
        lambda channel: channel.basic_get(queue),
        lambda channel: channel.queue_declare(queue, durable=True),
        lambda channel: (channel.confirm_delivery(), channel.basic_publish("", queue, b"{}", mandatory=True)),
    ):
        with (
            _as(broker, HOST, 'q"uote') as connection,
            pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"),
        ):
            attempt(connection.channel())


def test_an_agents_user_can_report_and_take_commands(broker: RabbitMQ) -> None:
    with _as(broker, HOST, 'q"uote') as connection:
        channel = connection.channel()
        channel.queue_declare(command_queue(HOST), exclusive=True, auto_delete=True)
        channel.confirm_delivery()
        channel.basic_publish(REPORT, "state", b"{}", pika.BasicProperties(user_id=HOST), mandatory=True)


def test_hostile_host_opens_connections_until_it_may_not(broker: RabbitMQ) -> None:
    held = [_as(broker, HOST, 'q"uote') for _ in range(3)]
    try:
        with pytest.raises((pika.exceptions.AMQPError, OSError)):
            _as(broker, HOST, 'q"uote')
    finally:
        for one in held:
            one.close()


def test_every_queue_is_under_the_policy_that_bounds_its_bytes(broker: RabbitMQ) -> None:
    listed = broker.control("list_queues", "-p", "memhint-role", "--no-table-headers", "name", "policy")
    under = dict(line.split("\t") for line in listed.splitlines())
    assert under == {STATE: "memhint-state", RECORD: "memhint-record", DEAD: "memhint-dead"}
    policies = json.loads(broker.control("list_policies", "-p", "memhint-role", "--formatter", "json"))
    assert all("max-length-bytes" in str(one["definition"]) for one in policies)
