"""Whoever watches goes on while the API, or what it stands on, is away, also where it asks beside the stream."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from memhint.cli.exits import Exit
from tests.unit.cli.fleet.conftest import Desk
from tests.unit.client.fake_server import Asked, Reply, problem

BEGIN = [b"retry: 3000\n\n", b"id: 5-1-1\n\n"]
MAY_NOT = Reply(403, problem(403))  # ends a watch


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memhint.cli.fleet.watch.AGAIN", 0.0)


def answers(desk: Desk, streams: Iterator[Reply], lists: Iterator[Reply]) -> None:
    """One reply after the other, for the stream and for what is asked beside it."""

    def answer(asked: Asked) -> Reply:
        return next(streams if asked.path == "/v1/stream" else lists)

    desk.server.answer = answer


def listed(member: str, *found: object) -> Reply:
    return Reply(body={member: list(found), "changed": "1"})


def test_hosts_are_read_again_when_the_list_fails_after_a_loss(desk: Desk) -> None:
    streams = [Reply(pieces=BEGIN), Reply(410, problem(410)), Reply(pieces=BEGIN), MAY_NOT]
    away = [Reply(503, problem(503))] * 3 + [Reply(hang_up=True)] * 3
    lists = [listed("hosts", {"name": "a"}), *away, listed("hosts", {"name": "b"})]
    answers(desk, iter(streams), iter(lists))
    result = desk.run("hosts", "--watch", "-f", "json")
    told = [json.loads(line)["hosts"] for line in result.out.splitlines()]
    assert told == [[{"name": "a"}], [{"name": "b"}]]
    assert result.err.count("trying again in 0 s") == 2
    assert result.code != Exit.DONE


def test_events_are_asked_for_again(desk: Desk) -> None:
    event = {"at": 1.0, "kind": "silent", "host": "a"}
    streams = [Reply(pieces=BEGIN), Reply(pieces=BEGIN), Reply(pieces=BEGIN), MAY_NOT]
    lists = [listed("events", event), *[Reply(503, problem(503))] * 3, listed("events", {**event, "at": 2.0}, event)]
    answers(desk, iter(streams), iter(lists))
    result = desk.run("events", "--watch", "-f", "json")
    assert [json.loads(line)["at"] for line in result.out.splitlines()] == [1.0, 2.0]


def test_a_watch_that_does_not_begin_says_why(desk: Desk) -> None:
    for words in (("hosts", "--watch"), ("events", "--watch")):
        answers(desk, iter([Reply(pieces=BEGIN)]), iter([Reply(503, problem(503))] * 3))
        assert desk.run(*words).code != Exit.DONE
