"""Arbitrary messages at a controller and arbitrary requests at the API, both as they run in a fleet, for a long time.

MEMHINT_SOAK_SECONDS is for how long; `make soak` has it for ten minutes. Whether memory stays flat is told by minutes,
so shorter runs do not ask.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from statistics import median

import pika
import psutil
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from lab.servers.postgres import Postgres
from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.bus.topology import REPORT
from memhint.objects.units import MIB
from memhint.store import Store, open_store
from memhint.store.fleet import HostEventKind
from tests.adversary.test_mutated_messages import RECORDED, mutated
from tests.functional.api_server import ApiServer, fill_store
from tests.functional.fleet_parts import EPOCH, Controllers, links
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.functional.test_api_fuzz import FUZZED
from tests.told import happened
from tests.unit import builders
from tests.waiting import until

SECONDS = float(os.environ.get("MEMHINT_SOAK_SECONDS", "10"))
FLAT_FROM = 300.0  # seconds of a run from which on memory is looked at
PERIOD = 10.0
HOSTILE, HONEST = "host-a", "host-b"
LITTLE = 8 * MIB


class Fleet:
    """A broker, a controller and an API over PostgreSQL, and an honest host."""

    def __init__(self, broker: RabbitMQ, postgres: Postgres, place: Path) -> None:
        self.broker = broker
        self.postgres = postgres
        url = postgres.create("memhint_soak")
        fill_store(url)
        self.store: Store = open_store(url)
        config = place / "controller.conf"
        config.write_text(
            f"[store]\nurl = {url}\n[bus]\nurls = {broker.url(CONTROLLER)}\nbackoff_max = 1\n"
            "[controller]\nsweep = 0.5\n"
        )
        self.controllers = Controllers(config)
        self.controller = self.controllers.start()
        self.api = ApiServer(place, url)
        spool = Spool(place / "honest.db", 10_000, 2**24)
        self.honest = RabbitPublisher(links(broker, HONEST), HONEST, EPOCH, spool, flush=0.0)
        self.honest.start()
        self.number = 0

    def report(self) -> None:
        self.number += 1
        report = builders.report(host=HONEST, epoch=EPOCH, sequence=self.number, at=time.time(), period=PERIOD)
        self.honest.publish(report)

    def age(self) -> float | None:
        """Seconds since the newest report of the honest host was made; None where it has none yet."""
        heard = next((one.heard for one in self.store.fleet.hosts() if one.name == HONEST), None)
        return None if heard is None else time.time() - heard

    def memory(self) -> tuple[int, int]:
        """Resident bytes of controller and API."""
        return (
            psutil.Process(self.controller.pid).memory_info().rss,
            psutil.Process(self.api.process.pid).memory_info().rss,
        )

    def close(self) -> None:
        self.honest.close()
        self.api.close()
        self.controllers.close()
        self.store.close()
        self.postgres.drop("memhint_soak")


@pytest.fixture
def fleet(rabbitmq: RabbitMQ, postgres: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    rabbitmq.begin()
    made = Fleet(rabbitmq, postgres, tmp_path)
    yield made
    made.close()


def damaged(draw: st.DataObject, text: bytes) -> bytes:
    """The bytes as they are, or cut, or with one of them changed."""
    how = draw.draw(st.sampled_from(["whole", "whole", "whole", "cut", "changed"]))
    # The text has numbers that differ from run to run, and so does its length: what is drawn must not depend on it.
    at = draw.draw(st.integers(0, 2**16)) % len(text)
    if how == "cut":
        return text[:at]
    if how == "changed":
        return text[:at] + bytes([draw.draw(st.integers(0, 255))]) + text[at + 1 :]
    return text


def test_nothing_ends_and_nothing_grows(fleet: Fleet) -> None:
    began = time.monotonic()
    end, due = began + SECONDS, began
    statuses: dict[int, int] = {}
    memory: list[tuple[float, int, int]] = []
    oldest = 0.0
    sent = 0
    base = f"{fleet.api.scheme}://127.0.0.1:{fleet.api.port}"
    schema = schemathesis.openapi.from_url(f"{base}/openapi.json")
    paths = [(one.path.replace("<path:", "{").replace("<", "{").replace(">", "}"), one.method) for one in FUZZED]
    requested = {
        (path, method): st.one_of(
            schema[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE),
            schema[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE),
        )
        for path, method in paths
    }
    session = requests.Session()
    fleet.report()
    until(lambda: fleet.age() is not None)
    with fleet.broker.connect(HOSTILE) as connection:
        channel = connection.channel()
        properties = pika.BasicProperties(user_id=HOSTILE, delivery_mode=2)

        @given(draw=st.data())
        @settings(max_examples=20, database=None, deadline=None, suppress_health_check=list(HealthCheck))
        def both(draw: st.DataObject) -> None:
            nonlocal sent
            name = draw.draw(st.sampled_from(sorted(RECORDED)))
            made = mutated(draw, RECORDED[name])
            sent += 1
            made["sequence"] = sent
            if name == "0.1-state" and isinstance(made["body"].get("sequence"), int):
                made["body"]["sequence"] = sent
            body = damaged(draw, json.dumps(made).encode(errors="surrogatepass"))
            channel.basic_publish(REPORT, name.partition("-")[2], body, properties)
            case = draw.draw(requested[draw.draw(st.sampled_from(paths))])
            answer = case.call_and_validate(
                base_url=base,
                session=session,
                headers={"X-Auth-Token": fleet.api.tokens["admin"]},
                excluded_checks=[positive_data_acceptance],
            )
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1

        for number in count():
            if number and time.monotonic() >= end:
                break
            if settings.default.derandomize:
                seed(number)(both)  # or each round would have the examples of the first
            both()
            connection.process_data_events(0)
            if time.monotonic() >= due:
                fleet.report()
                due += PERIOD
            memory.append((time.monotonic() - began, *fleet.memory()))
            oldest = max(oldest, fleet.age() or 0.0)
        # Some of it is kept, and some is refused: a drill at which nothing arrives shows nothing. On a busy machine it
        # is some twenty messages, of which none may be whole, or all.
        made = {**RECORDED["0.1-state"], "sequence": sent + 1}
        made["body"] = {**made["body"], "sequence": sent + 1}
        whole = json.dumps(made).encode()
        for body in (whole, whole[:-1]):
            channel.basic_publish(REPORT, "state", body, properties)
        connection.process_data_events(0)
    until(lambda: any(one.name == HOSTILE and one.epoch for one in fleet.store.fleet.hosts()))
    until(lambda: any(one.kind == HostEventKind.POISON for one in happened(fleet.store, HOSTILE)))
    print(f"{sent} messages, answers {statuses}, oldest report of another host {oldest:.1f} s, memory {memory[::99]}")
    assert fleet.controller.poll() is None, fleet.controllers.log()[-4000:]
    assert fleet.api.process.poll() is None, fleet.api.log[-4000:]
    assert max(statuses) < 500, statuses
    assert oldest < (3 if SECONDS >= FLAT_FROM else 10) * PERIOD  # it reports between two batches, so up to one late
    if SECONDS >= FLAT_FROM:
        for which in (1, 2):
            early = median(one[which] for one in memory if SECONDS / 4 <= one[0] < SECONDS / 2)
            late = median(one[which] for one in memory if one[0] >= SECONDS * 3 / 4)
            assert late <= early * 1.05 + LITTLE, (early, late)
