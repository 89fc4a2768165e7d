from __future__ import annotations

import os

from bench.ingest.agents import Host
from bench.ingest.measured import cpu_of, resident_of, tree
from lab.fleet.fleet import Fleet, Shape
from memhint.bus.envelope import MessageKind, decode
from memhint.bus.record import Record
from memhint.objects.report import Report

NOW = 1_800_000_000.0


def test_what_stands_for_an_agent_says_what_an_agent_would() -> None:
    fleet = Fleet(Shape(3, 4))
    host = Host(fleet, 1, NOW)
    for sequence in (41, 42):
        message = decode(*host.state(sequence, 1000.5))
        assert isinstance(message.body, Report)
        assert (message.host, message.sequence, message.clock) == (fleet.name(1), sequence, 1000.5)
        assert message.body.sequence == sequence
        assert len(message.body.domains) == 4
    first, second = (decode(*host.state(sequence, 1.0)).body for sequence in (41, 42))
    assert [one.observation for one in first.domains] != [one.observation for one in second.domains]


def test_and_its_points_are_those_of_the_last_cycles() -> None:
    host = Host(Fleet(Shape(3, 4)), 1, NOW)
    message = decode(*host.record(NOW, 10.0, 41, 1000.5))
    assert message.kind is MessageKind.RECORD
    assert isinstance(message.body, Record)
    assert [one.at for one in message.body.points] == [NOW - 50, NOW - 40, NOW - 30, NOW - 20, NOW - 10, NOW]


def test_processes_are_counted_with_all_below_them() -> None:
    me = os.getpid()
    assert me in tree([os.getppid()])
    assert cpu_of([me]) > 0
    assert resident_of([me]) > 1 << 20
    assert (cpu_of([0x3FFFFF]), resident_of([0x3FFFFF])) == (0.0, 0)
