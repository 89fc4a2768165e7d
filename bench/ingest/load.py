"""A fleet's reports for some minutes into one database: backlog, CPU, memory, and how fast the API answers.

Broker, database, controller, API, the agents' stand-in and the one who asks the API share this machine's cores. What
the agents could not send in time is refused: what was not sent was not taken.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika
import requests

from bench.harness.precondition import PreconditionFailed
from bench.ingest.measured import cpu_of, resident_of
from lab.servers.bus_users import CONTROLLER, VHOST, rights
from lab.servers.directory import wait_until
from lab.servers.mariadb import MariaDB
from lab.servers.postgres import Postgres
from lab.servers.rabbitmq import RabbitMQ, definitions
from memhint.bus.topology import DEAD, RECORD, STATE, declare
from memhint.store import Store, open_store

ROOT = Path(__file__).parents[2]
AGENTS = "agents"
# The sizes that MariaDB has unless told otherwise: those that keep a test's server small do not hold such a fleet.
_SHIPPED = ("--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M")
_ASK_EVERY = 0.5  # seconds between two questions to the API
_LOOK_EVERY = 2.0  # seconds between two looks at the queues
_QUESTIONS = (
    "/v1/hosts?limit=100",
    "/v1/domains?sort=unreported:desc&limit=100",
    "/v1/domains?limit=100",
    "/v1/history",
)


@dataclass(frozen=True, slots=True)
class Load:
    """What the fleet says: each host one report of its VMs in each period (s), for so many seconds."""

    hosts: int
    vms: int
    period: float
    seconds: float
    controllers: int

    def __str__(self) -> str:
        return f"{self.hosts} hosts, {self.vms} VMs each, every {self.period:g} s for {self.seconds:g} s"

    @property
    def messages(self) -> float:
        """Per second."""
        return self.hosts / self.period


@dataclass(frozen=True, slots=True)
class Arm:
    """What one database gave. Seconds, bytes, messages."""

    database: str
    sent: int
    records: int
    late: float  # the most by which the agents were behind
    taken: int  # reports that are the newest of their host in the end
    backlog: tuple[int, int, int]  # messages that waited: median of the first third, of the last, and the most
    cpu: Mapping[str, float]  # seconds per second, by who took them
    memory: Mapping[str, tuple[int, int]]  # at a third of the time and in the end
    api: tuple[float, float]  # median and p99 of its answers
    asked: int
    met: bool


def measure(database: str, load: Load) -> Arm:
    """One arm, everything started for it alone.

    :raises PreconditionFailed: when the load was not what it should be
    """
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memhint-ingest-")))
        url, database_pids = stack.enter_context(_database(database, place))
        broker = stack.enter_context(_broker())
        conf = place / "memhint.conf"
        conf.write_text(
            f"[store]\nurl = {url}\n[bus]\nurls = {broker.url(CONTROLLER)}\n"
            "[api]\nauth = none\nlisten = 127.0.0.1:0\nrate = 0\n"
        )
        open_store(url).close()
        pids = {"broker": [_pid(broker.process)], "database": database_pids}
        started = [stack.enter_context(_memhint(conf, "controller")) for _ in range(load.controllers)]
        pids["controllers"] = [_pid(one) for one in started]
        api = stack.enter_context(_memhint(conf, "api"))
        pids["api"] = [_pid(api)]
        base = _address(conf.with_suffix(".api.log"))
        words = [broker.url(AGENTS), "--hosts", str(load.hosts), "--vms", str(load.vms)]
        words += ["--period", str(load.period), "--seconds", str(load.seconds)]
        agents = stack.enter_context(_started([sys.executable, "-m", "bench.ingest.agents", *words]))
        assert agents.stdout is not None
        if not agents.stdout.readline():
            raise PreconditionFailed("the agents did not begin")
        pids["agents"] = [_pid(agents)]
        watch = _Watch(broker, base, pids, load.seconds)
        watch.run()
        told = json.loads(agents.stdout.readline())
        if told["late"] > max(load.period, 10.0):  # a smoke's period is shorter than a busy machine's pauses
            raise PreconditionFailed(
                f"{database}: the agents were {told['late']:.0f} s late: this machine cannot make that load"
            )
        taken = _drained(broker, url, told["sent"], load.hosts)
        return watch.arm(database, told, taken)


class _Watch:
    """Looks at queues and processes, and asks the API, while the load lasts."""

    def __init__(self, broker: RabbitMQ, base: str, pids: Mapping[str, list[int]], seconds: float) -> None:
        self._broker, self._base, self._pids, self._seconds = broker, base, pids, seconds
        self._backlog: list[tuple[float, int]] = []
        self._answers: list[float] = []
        self._memory: dict[str, list[int]] = {name: [] for name in pids}
        self._cpu: dict[str, float] = {}
        self._failed: list[str] = []

    def run(self) -> None:
        """For as long as the load lasts."""
        began = time.monotonic()
        before = {name: cpu_of(its) for name, its in self._pids.items()}
        asking = threading.Thread(target=self._ask, args=(began,))
        asking.start()
        with pika.BlockingConnection(pika.URLParameters(self._broker.url(CONTROLLER))) as connection:
            channel = connection.channel()
            # Once at least: on a busy machine a smoke may be over before the broker has answered.
            while (now := time.monotonic() - began) < self._seconds or not self._backlog:
                waiting = sum(channel.queue_declare(one, passive=True).method.message_count for one in (STATE, RECORD))
                self._backlog.append((now, waiting))
                for name, its in self._pids.items():
                    self._memory[name].append(resident_of(its))
                connection.sleep(_LOOK_EVERY)
        asking.join()
        passed = time.monotonic() - began
        self._cpu = {name: (cpu_of(its) - before[name]) / passed for name, its in self._pids.items()}

    def _ask(self, began: float) -> None:
        session = requests.Session()
        count = 0
        while time.monotonic() - began < self._seconds or not count:
            at = time.monotonic()
            try:
                answer = session.get(self._base + _QUESTIONS[count % len(_QUESTIONS)], timeout=60)
                if answer.status_code != 200:
                    self._failed.append(f"{answer.status_code} {answer.url}")
            except requests.RequestException as error:  # this thread must not end without a word
                self._failed.append(str(error))
            self._answers.append(time.monotonic() - at)
            count += 1
            time.sleep(max(0.0, at + _ASK_EVERY - time.monotonic()))

    def arm(self, database: str, told: Mapping[str, Any], taken: int) -> Arm:
        """What was seen.

        :raises PreconditionFailed: when the API failed
        """
        if self._failed:
            raise PreconditionFailed(f"{database}: the API failed {len(self._failed)} times: {self._failed[0]}")
        depths = [depth for _, depth in self._backlog]
        third = max(1, len(depths) // 3)
        early, late = statistics.median(depths[:third]), statistics.median(depths[-third:])
        answers = sorted(self._answers)
        memory = {name: (seen[len(seen) // 3], seen[-1]) for name, seen in self._memory.items()}
        flat = all(end <= 1.25 * begin + 32 * 2**20 for name, (begin, end) in memory.items() if name != "database")
        per_second = told["sent"] / self._seconds
        return Arm(
            database,
            told["sent"],
            told["records"],
            told["late"],
            taken,
            (int(early), int(late), max(depths)),
            self._cpu,
            memory,
            (statistics.median(answers), answers[min(len(answers) - 1, int(len(answers) * 0.99))]),
            len(answers),
            met=late <= early + per_second and flat,  # a second's worth of messages is no growth
        )


def _drained(broker: RabbitMQ, url: str, sent: int, hosts: int) -> int:
    """Wait for what is under way; how many hosts have their newest report then."""
    store = open_store(url)
    try:
        end = time.monotonic() + 60
        while (taken := _newest(store, sent, hosts)) < hosts and time.monotonic() < end:
            time.sleep(0.5)
        with pika.BlockingConnection(pika.URLParameters(broker.url(CONTROLLER))) as connection:
            dead = connection.channel().queue_declare(DEAD, passive=True).method.message_count
    finally:
        store.close()
    if dead:
        raise PreconditionFailed(f"{dead} messages were refused by the controllers")
    return taken


def _newest(store: Store, sent: int, hosts: int) -> int:
    """Hosts of which the store has the last report that was sent. They send in the order of their names."""
    found = [one.sequence for one in sorted(store.fleet.hosts(), key=lambda one: one.name)]
    cycles = [(sent - 1 - number) // hosts for number in range(hosts)]
    if len(found) < hosts:
        return 0
    begin = max(found) - max(cycles)
    return sum(sequence == begin + cycle for sequence, cycle in zip(found, cycles, strict=True))


@contextmanager
def _database(name: str, place: Path) -> Iterator[tuple[str, list[int]]]:
    if name == "sqlite":
        yield f"sqlite:///{place}/lib/memhint.db", []
        return
    server = Postgres() if name == "postgresql" else MariaDB(options=_SHIPPED)
    try:
        server.start()
        yield server.create("memhint"), [_pid(server.process)]
    finally:
        server.close()


@contextmanager
def _broker() -> Iterator[RabbitMQ]:
    defined = definitions([*rights(()), (AGENTS, VHOST, "", ".*", "")])
    for one in defined["users"]:
        if one["name"] == AGENTS:
            one["tags"] = "impersonator"
    broker = RabbitMQ(defined)
    try:
        broker.start()
        with pika.BlockingConnection(pika.URLParameters(broker.url(CONTROLLER))) as connection:
            declare(connection.channel())
        yield broker
    finally:
        broker.close()


@contextmanager
def _memhint(conf: Path, command: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "memhint.cli.main", "--config-file", str(conf), command]
    with _started(words, conf.with_suffix(f".{command}.log")) as process:
        yield process


@contextmanager
def _started(words: Sequence[str], log: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    with ExitStack() as stack:
        said = stack.enter_context(log.open("a")) if log else None
        process = subprocess.Popen(words, cwd=ROOT, stdout=said or subprocess.PIPE, stderr=said, text=True)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _pid(process: subprocess.Popen[Any] | None) -> int:
    assert process is not None
    return process.pid


def _address(log: Path) -> str:
    """Where the API says that it listens."""
    found: list[str] = []

    def told() -> bool:
        found[:] = re.findall(r"the API is at (http://\S+),", log.read_text() if log.exists() else "")
        return bool(found)

    wait_until(told, f"the API ({log})")
    return found[0]
