"""Stands for the agents of a whole fleet: one process, one connection, a report of each host in each period.

    python -m bench.ingest.agents URL --hosts 2000 --vms 50 --period 10 --seconds 300

Real agents have a connection and a user each. Here one user has the broker's leave to speak for all of them, and what
a host says is made ready before the load begins, at two moments in turn: what is measured is not who says it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace

import pika
from pika.adapters.blocking_connection import BlockingChannel

from lab.fleet.fleet import Fleet, Shape
from memhint.bus.envelope import JSON, Envelope, MessageKind, encode, pack, text_of
from memhint.bus.record import Record
from memhint.bus.topology import REPORT
from memhint.objects.history import point_of
from memhint.objects.report import STALE_PERIODS

RECORDS_EVERY = 6  # periods for which an agent gathers points of the history
_MOMENTS = (0.0, 40.0)  # seconds from the beginning, whose reports take turns
_SEQUENCE, _CLOCK = 987654321, 987654.5  # in the texts, until the real ones are known


class Host:
    """What one host says, as text in which only the numbers of its cycle are missing."""

    def __init__(self, fleet: Fleet, number: int, began: float) -> None:
        self.name = fleet.name(number)
        self.epoch = fleet.epoch
        self._texts = []
        for moment in _MOMENTS:
            report = fleet.report(number, began + moment, even_stale=True)
            numbered = replace(report, sequence=_SEQUENCE)
            envelope = Envelope(MessageKind.STATE, report.host, report.epoch, _SEQUENCE, _CLOCK, numbered)
            self._texts.append(text_of(envelope))
        self._point = point_of(fleet.report(number, began, even_stale=True))

    def state(self, sequence: int, clock: float) -> tuple[bytes, str | None]:
        """The report of a cycle."""
        text = self._texts[sequence % len(self._texts)]
        return pack(text.replace(str(_SEQUENCE), str(sequence)).replace(str(_CLOCK), f"{clock:.3f}"))

    def record(self, at: float, period: float, sequence: int, clock: float) -> tuple[bytes, str | None]:
        """The points of the last cycles."""
        points = tuple(replace(self._point, at=at - period * number) for number in reversed(range(RECORDS_EVERY)))
        return encode(Envelope(MessageKind.RECORD, self.name, self.epoch, sequence, clock, Record(points, (), 0)))


def run(url: str, shape: Shape, seconds: float) -> dict[str, float]:
    """Send on time for so many seconds; what was sent, and how late it was at worst."""
    fleet = Fleet(shape)
    began = time.time()
    hosts = [Host(fleet, number, began) for number in range(shape.hosts)]
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    first = fleet.sequence(began)
    start = time.monotonic()
    print(json.dumps({"ready": True}), flush=True)
    sent = records = 0
    late, cpu = 0.0, time.process_time()
    step = shape.period / shape.hosts
    while (now := time.monotonic() - start) < seconds:
        due = sent * step
        if now < due:
            connection.process_data_events(0)
            time.sleep(min(0.005, due - now))
            continue
        late = max(late, now - due)
        cycle, number = divmod(sent, shape.hosts)
        host, sequence, clock = hosts[number], first + cycle, 1000.0 + cycle * shape.period
        _send(
            channel, host, MessageKind.STATE, host.state(sequence, clock), str(int(STALE_PERIODS * shape.period * 1000))
        )
        sent += 1
        if cycle % RECORDS_EVERY == number % RECORDS_EVERY:
            _send(channel, host, MessageKind.RECORD, host.record(time.time(), shape.period, sequence, clock), None)
            records += 1
    connection.close()
    return {"sent": sent, "records": records, "late": late, "cpu": time.process_time() - cpu}


def _send(
    channel: BlockingChannel, host: Host, kind: MessageKind, packed: tuple[bytes, str | None], expiration: str | None
) -> None:
    body, encoding = packed
    properties = pika.BasicProperties(
        content_type=JSON, content_encoding=encoding, delivery_mode=2, user_id=host.name, expiration=expiration
    )
    channel.basic_publish(REPORT, str(kind), body, properties)


def main(words: Sequence[str] | None = None) -> None:
    """Run, and print one line of JSON when the load begins and one when it is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--vms", type=int, default=50)
    parser.add_argument("--period", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=300.0)
    given = parser.parse_args(words)
    print(json.dumps(run(given.url, Shape(given.hosts, given.vms, given.period), given.seconds)), flush=True)


if __name__ == "__main__":
    main()
