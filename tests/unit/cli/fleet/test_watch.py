"""Whoever watches goes on while the API, or what it stands on, is away, also where it asks beside the stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pytest

from memhint.cli.exits import Exit
from memhint.objects.units import MIB
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


def listed(member: str, *found: object, deleted: Iterable[str] = ()) -> Reply:
    return Reply(body={member: list(found), "deleted": list(deleted), "changed": "1"})


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


def test_what_happened_while_a_watch_of_events_was_cut_off_is_told(desk: Desk) -> None:
    happened = [{"at": float(at), "kind": "silent", "host": "a"} for at in range(60)]
    streams = iter([Reply(pieces=BEGIN), Reply(pieces=BEGIN), MAY_NOT])
    seen = iter([happened[:30], happened])

    def answer(asked: Asked) -> Reply:
        if asked.path == "/v1/stream":
            return next(streams)
        since = float(asked.query.get("since", 0))
        found = [one for one in next(seen)[::-1] if float(str(one["at"])) >= since]
        return listed("events", *found[: int(asked.query["limit"])])

    desk.server.answer = answer
    told = [json.loads(line)["at"] for line in desk.run("events", "--watch", "-f", "json").out.splitlines()]
    assert told == [float(at) for at in range(10, 60)]  # it begins with the newest 20 of 30


def test_a_watch_that_does_not_begin_says_why(desk: Desk) -> None:
    for words in (("hosts", "--watch"), ("events", "--watch")):
        answers(desk, iter([Reply(pieces=BEGIN)]), iter([Reply(503, problem(503))] * 3))
        assert desk.run(*words).code != Exit.DONE


def claimed(host: str, unreported: int) -> dict[str, object]:
    """What a host says of one VM."""
    return {"uuid": "v", "name": "v", "host": host, "unreported": unreported}


def watched(desk: Desk, looks: Iterable[Reply], *words: str) -> list[tuple[list[tuple[str, int]], list[str]]]:
    """What a watch of VMs tells of hosts and deleted VMs, by what it is answered whenever something happens."""
    happened = b'event: hosts\ndata: {"hosts": [], "deleted": []}\n\n'
    answers(desk, iter([Reply(pieces=[*BEGIN, happened]), MAY_NOT]), iter(looks))
    told = [json.loads(line) for line in desk.run("vms", "--watch", "-f", "json", *words).out.splitlines()]
    return [([(one["host"], one["unreported"]) for one in each["domains"]], each["deleted"]) for each in told]


def test_no_host_that_claims_a_vm_hides_the_line_of_another(desk: Desk) -> None:
    true, liar = claimed("honest-1", 24), claimed("liar-9", 0)
    looks = [listed("domains", true, liar), listed("domains", true, claimed("liar-9", 8)), listed("domains", true)]
    assert watched(desk, looks) == [
        ([("honest-1", 24), ("liar-9", 0)], []),
        ([("honest-1", 24), ("liar-9", 8)], []),
        ([("honest-1", 24)], []),
    ]


def test_a_table_has_the_lines_of_each_host_that_claims_a_vm(desk: Desk) -> None:
    true, liar = claimed("honest-1", 24), claimed("liar-9", 0)
    looks = [listed("domains", true, liar), listed("domains", true, claimed("liar-9", 8 * MIB))]
    answers(desk, iter([Reply(pieces=BEGIN), MAY_NOT]), iter(looks))
    out = desk.run("vms", "--watch").out
    assert [out.count(host) for host in ("honest-1", "liar-9", "2 of 2, memory")] == [2, 2, 2]


def test_a_watched_table_has_one_line_for_each_host_however_narrow_the_terminal(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cliff.formatters.table._do_fit", lambda fit_width: True)  # as on a terminal
    monkeypatch.setattr("cliff.utils.terminal_width", lambda: 80)
    found = [{"name": f"compute-{number:04}.region-1.example"} for number in range(3)]
    answers(desk, iter([MAY_NOT]), iter([listed("hosts", *found)]))
    out = desk.run("hosts", "--watch").out
    assert [line.count("region-1.example |") for line in out.splitlines()] == [0, 0, 0, 1, 1, 1, 0, 0, 0]


def test_a_watch_knows_which_columns_there_are(desk: Desk) -> None:
    answers(desk, iter([MAY_NOT]), iter([listed("hosts", {"name": "a"})]))
    result = desk.run("hosts", "--watch", "-c", "host", "-c", "nonsense")
    assert (result.code, result.out) == (Exit.USAGE, "")
    assert "'nonsense' is no column here: use Host, " in result.err


def test_a_claim_drops_no_line_of_the_host_that_is_watched(desk: Desk) -> None:
    true, liar = claimed("honest-1", 24), claimed("liar-9", 0)
    looks = [listed("domains", true), listed("domains", true, liar), listed("domains", liar)]
    assert watched(desk, looks, "--host", "honest-1") == [
        ([("honest-1", 24)], []),
        ([("honest-1", 24)], []),
        ([], ["v"]),
    ]
