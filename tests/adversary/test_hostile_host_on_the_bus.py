"""A host that was taken over uses its right to write to the broker: against controllers, other hosts, and questions."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pika
import psutil
import pytest
import zstandard

from memhint.bus.asker import Asker
from memhint.bus.commands import CommandStatus
from memhint.bus.courier import Command
from memhint.bus.envelope import ZSTD, Envelope, MessageKind, text_of
from memhint.bus.errors import BusError
from memhint.bus.link import LOST
from memhint.bus.rabbit_publisher import RabbitPublisher
from memhint.bus.spool import Spool
from memhint.bus.topology import DEAD, REPLY, REPORT, STATE, command_queue
from memhint.store import Store, open_store
from tests.adversary.scale import HEALTHY_WITHIN, LASTS, OLD, PERIOD
from tests.functional.fleet_parts import EPOCH, Controllers, links
from tests.functional.processes import ROOT
from tests.functional.servers.rabbitmq import CONTROLLER, RabbitMQ
from tests.hostile_header import DEEP, LATE, Headed
from tests.unit import builders
from tests.waiting import until


@pytest.fixture(scope="module")
def bounded(rabbitmq: RabbitMQ) -> RabbitMQ:
    """A broker whose queues are bounded as doc/install.md says."""
    for words in policies():
        rabbitmq.control(*words)
    return rabbitmq


@pytest.fixture
def config(bounded: RabbitMQ, tmp_path: Path) -> Path:
    bounded.begin()
    path = tmp_path / "memhint.conf"
    path.write_text(
        f"[store]\nurl = sqlite:///{tmp_path}/memhint.db\n"
        f"[bus]\nurls = {bounded.url(CONTROLLER)}\nheartbeat = 10\nbackoff_max = 1\n[controller]\nsweep = 0.5\n"
    )
    return path


@pytest.fixture
def store(config: Path) -> Iterator[Store]:
    opened = open_store(config.read_text().split("url = ")[1].split("\n")[0])
    yield opened
    opened.close()


@pytest.fixture
def controllers(config: Path, store: Store) -> Iterator[Controllers]:
    several = Controllers(config)
    yield several
    several.close()


def policies() -> list[list[str]]:
    """The bounds that doc/install.md has an operator set, as it writes them."""
    text = (ROOT / "doc" / "install.md").read_text()
    found = [shlex.split(one)[1:] for one in text.splitlines() if one.startswith("    rabbitmqctl set_")]
    return [one for one in found if one[0] in ("set_policy", "set_vhost_limits")]


class Honest:
    """host-b, which reports each period; how old its report was at worst, as the store has it."""

    def __init__(self, broker: RabbitMQ, place: Path, store: Store) -> None:
        self._spool = Spool(place / "host-b.db", 10_000, 2**24)
        self._agent = RabbitPublisher(links(broker, "host-b"), "host-b", EPOCH, self._spool, flush=0.0)
        self._store = store
        self._sequence = 0
        self._due = 0.0

    def __enter__(self) -> Honest:
        self._agent.start()
        try:
            until(self._begun)
        except BaseException:
            self._agent.close()  # the next test has a host of this name, too
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._agent.close()

    def _begun(self) -> bool:
        """Whether it was heard. It goes on to report: one report grows old before a controller has started."""
        if time.monotonic() >= self._due:
            self.report()
            self._due = time.monotonic() + PERIOD
        return self.heard() is not None

    def report(self) -> None:
        self._sequence += 1
        self._agent.publish(
            builders.report(host="host-b", epoch=EPOCH, sequence=self._sequence, at=time.time(), period=PERIOD)
        )

    def heard(self) -> float | None:
        return next((one.heard for one in self._store.fleet.hosts() if one.name == "host-b"), None)

    def worst_age(self, seconds: float, enough: Callable[[], bool] = lambda: True) -> float:
        """Report each period for so long; the greatest age that the newest report of this host came to.

        It goes on, for two minutes at most, until ``enough`` is so and the host was heard since it began.
        """
        began, due, worst, before = time.monotonic(), time.monotonic(), 0.0, self.heard()
        while (passed := time.monotonic() - began) < seconds or (
            passed < 120 and not (enough() and self.since(before))
        ):
            if time.monotonic() >= due:
                self.report()
                due += PERIOD
            worst = max(worst, time.time() - (self.heard() or 0.0))
            time.sleep(0.05)
        assert self.since(before), "it was not heard any more"
        return worst

    def since(self, before: float | None) -> bool:
        """Whether it was heard later than that."""
        return (self.heard() or 0.0) > (before or 0.0)


@contextmanager
def sending(
    broker: RabbitMQ, send: Callable[[pika.adapters.blocking_connection.BlockingChannel], int]
) -> Iterator[list[int]]:
    """host-a sends as much as it can for as long as this lasts; how many it has sent."""
    stop, sent = threading.Event(), [0]

    def flood() -> None:
        while not stop.is_set():
            with suppress(*LOST), broker.connect("host-a") as connection:
                channel = connection.channel()
                while not stop.is_set():
                    sent[0] += send(channel)

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        stop.set()
        thread.join(60)


def signed(encoding: str | None = None, table: bytes = b"") -> pika.BasicProperties:
    made = partial(Headed, table) if table else pika.BasicProperties
    return made(user_id="host-a", content_encoding=encoding, delivery_mode=2)


def report_text(number: int) -> str:
    report = builders.report(host="host-a", epoch=EPOCH, sequence=number, at=time.time(), period=PERIOD)
    return text_of(Envelope(MessageKind.STATE, "host-a", EPOCH, number, 1.0, report))


def spoiled(number: int) -> list[bytes]:
    """Reports of which each once ended a controller, and their like."""
    made = []
    for change in (
        {"slot": 0},
        {"slot": -1},
        {"period": 0},
        {"period": -5},
        {"period": 1e300},
        {"at": 1e300},
        {"slot_overhead": 2**62},
    ):
        plain = json.loads(report_text(number))
        plain["body"].update(change)
        made.append(json.dumps(plain).encode())
    for settings in (
        {},
        {"class": {"value": "platinum", "origin": "default"}},
        {"class": {"value": "x", "origin": "y"}},
    ):
        plain = json.loads(report_text(number))
        for domain in plain["body"]["domains"]:
            domain["policy"]["settings"] = settings
        made.append(json.dumps(plain).encode())
    return made


def test_hostile_host_sends_reports_that_make_no_sense_and_no_controller_ends(
    rabbitmq: RabbitMQ, controllers: Controllers, store: Store, tmp_path: Path
) -> None:
    running = controllers.start()
    with Honest(rabbitmq, tmp_path, store) as honest, rabbitmq.connect("host-a") as connection:
        channel = connection.channel()
        for number in range(1, 4):
            for body in spoiled(number):
                channel.basic_publish(REPORT, str(MessageKind.STATE), body, signed())
        connection.process_data_events(0)
        assert honest.worst_age(PERIOD) < OLD
        until(lambda: rabbitmq.depth(STATE) == 0)
        assert running.poll() is None
        assert rabbitmq.depth(DEAD) == 3 * 7  # what makes no sense; what only a newer agent says is kept
        assert "host-a" in {one.name for one in store.hosts_view.all()}
    assert "Traceback" not in controllers.log()


ATTACKS = {
    "one byte": (b"x", None, b""),
    "zstd bombs": (zstandard.ZstdCompressor(level=3).compress(b'{"a":' * 2**24), ZSTD, b""),
    "the longest text": (zstandard.ZstdCompressor(level=3).compress(b"[" + b"0," * (2**21 - 8) + b"0]"), ZSTD, b""),
    "real reports": (report_text(1).encode(), None, b""),
    "a header of a far future": (b"x", None, LATE),
    "a header too deep": (b"x", None, DEEP),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_host_sends_as_much_as_it_can_and_other_hosts_stay_fresh(
    attack: str, rabbitmq: RabbitMQ, controllers: Controllers, store: Store, tmp_path: Path
) -> None:
    running = controllers.start()
    body, encoding, table = ATTACKS[attack]

    def send(channel: pika.adapters.blocking_connection.BlockingChannel) -> int:
        for kind in (MessageKind.STATE, MessageKind.RECORD):
            for _ in range(50):
                channel.basic_publish(REPORT, str(kind), body, signed(encoding, table))
        channel.connection.process_data_events(0)
        return 100

    with Honest(rabbitmq, tmp_path, store) as honest:
        process = psutil.Process(running.pid)
        before = process.memory_info().rss
        with sending(rabbitmq, send) as sent:
            worst = honest.worst_age(LASTS, lambda: sent[0] > 1000)
            most, cpu = process.memory_info().rss, sum(process.cpu_times()[:2])
        print(f"\n{attack}: {sent[0]} messages, age {worst:.1f} s, cpu {cpu:.1f} s, rss +{(most - before) >> 20} MiB")
        assert sent[0] > 1000
        assert running.poll() is None
        assert controllers.log().count("connected to the broker") == 1  # and not again: no message costs a connection
        assert most - before < 200 * 2**20
        assert worst < OLD


def test_hostile_host_fills_the_queue_of_answers_and_others_are_still_asked(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    rabbitmq.begin()
    agent = RabbitPublisher(
        links(rabbitmq, "host-b"),
        "host-b",
        EPOCH,
        Spool(tmp_path / "b.db", 10, 2**20),
        handlers={"echo": lambda words: words},
    )
    agent.start()
    until(lambda: agent.counts.connected)
    asker = Asker(links(rabbitmq, CONTROLLER), 2.0)
    learnt: list[str] = []
    stop = threading.Event()

    def host_a() -> None:
        """Takes each question, answers none, and fills every queue for answers that it was told of."""
        with suppress(*LOST), rabbitmq.connect("host-a") as connection:
            channel = connection.channel()
            channel.queue_declare(command_queue("host-a"), exclusive=True)
            while not stop.is_set():
                _, properties, _ = channel.basic_get(command_queue("host-a"), auto_ack=True)
                if properties is not None:
                    learnt.append(properties.reply_to)
                for queue in learnt:
                    for number in range(20):
                        to = pika.BasicProperties(user_id="host-a", correlation_id=f"forged {number}")
                        channel.basic_publish(REPLY, queue, b"x" * 1000, to)
                connection.process_data_events(0.01)

    thread = threading.Thread(target=host_a, daemon=True)
    thread.start()
    try:
        until(lambda: _asked(asker, "host-a") is not None and bool(learnt))
        for _ in range(3):
            assert _asked(asker, "host-a") == "CommandTimeout"
            _answers_soon(asker, "host-b")
        # Nor do questions that it leaves unanswered keep others waiting, however many wait.
        waiting = [threading.Thread(target=_asked, args=(asker, "host-a"), daemon=True) for _ in range(20)]
        for one in waiting:
            one.start()
        _answers_soon(asker, "host-b")
        for one in waiting:
            one.join(20)
    finally:
        stop.set()
        thread.join(30)
        asker.close()
        agent.close()


def _answers_soon(asker: Asker, host: str) -> None:
    """If need be when it is asked again: beside other tests an answer takes its time."""
    began = time.monotonic()
    until(lambda: _asked(asker, host) is None, HEALTHY_WITHIN)
    assert time.monotonic() - began < HEALTHY_WITHIN


def _asked(asker: Asker, host: str) -> str | None:
    """What came of a question; None: it was done."""
    try:
        outcome = asker.ask(Command(host, "echo", "", {})).outcome
    except BusError as error:
        return type(error).__name__
    return None if outcome is CommandStatus.DONE else str(outcome)
