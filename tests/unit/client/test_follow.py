from __future__ import annotations

import json
from itertools import islice

import pytest

from memhint.client.client import Client
from memhint.client.errors import BadAnswer, Forbidden, ServerFailed
from memhint.client.follow import ChangesLost, Connected, Disconnected, EventReceived, HostsChanged
from tests.unit.client.conftest import Naps
from tests.unit.client.fake_server import FakeServer, Reply, problem


def hosts(token: str, *names: str) -> bytes:
    data = json.dumps({"hosts": [{"name": name} for name in names], "deleted": []})
    return f"id: {token}\nevent: hosts\ndata: {data}\n\n".encode()


BEGIN = [b"retry: 3000\n\n", b"id: 5-1-1\n\n"]


def test_what_changes_is_told(server: FakeServer, client: Client) -> None:
    event = b'id: 6\nevent: event\ndata: {"kind":"silent"}\n\n'
    server.replies = [Reply(pieces=[*BEGIN, hosts("6", "a"), b": still here\n\n", event, b"event: new\ndata: 1\n\n"])]
    found = list(islice(client.follow("5"), 3))
    assert found == [Connected(), HostsChanged([{"name": "a"}], []), EventReceived({"kind": "silent"})]
    assert server.asked[0].headers["last-event-id"] == "5"
    assert server.asked[0].headers["accept"] == "text/event-stream"


def test_a_stream_that_ends_goes_on_where_it_was(server: FakeServer, client: Client, naps: Naps) -> None:
    server.replies = [
        Reply(pieces=[*BEGIN, hosts("6-1-1", "a")]),
        Reply(503, problem(503), {"Retry-After": "9"}),
        Reply(hang_up=True),
        Reply(pieces=[*BEGIN, hosts("7-1-1", "b")]),
    ]
    found = list(islice(client.follow(), 7))
    assert [type(one) for one in found] == [
        Connected,
        HostsChanged,
        Disconnected,
        Disconnected,
        Disconnected,
        Connected,
        HostsChanged,
    ]
    assert [one.headers.get("last-event-id") for one in server.asked] == [None, "6-1-1", "6-1-1", "6-1-1"]
    assert naps.taken == [1.0, 9.0, 18.0]


def test_the_first_connection_must_succeed(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(503, problem(503))]
    with pytest.raises(ServerFailed):
        next(client.follow())


def test_who_may_not_any_more_is_told(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(pieces=BEGIN), Reply(403, problem(403))]
    with pytest.raises(Forbidden):
        list(client.follow())


def test_what_can_no_longer_be_told_is_lost(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(410, problem(410)), Reply(pieces=[*BEGIN])]
    found = list(islice(client.follow("1"), 2))
    assert found == [ChangesLost(), Connected()]
    assert "last-event-id" not in server.asked[1].headers


@pytest.mark.parametrize("data", [b"no", b"[]", b'{"hosts":1}', b'{"hosts":[1],"deleted":[]}', 9999 * b"["])
def test_nonsense_ends_it(server: FakeServer, client: Client, data: bytes) -> None:
    server.replies = [Reply(pieces=[b"event: hosts\ndata: " + data + b"\n\n"])]
    with pytest.raises(BadAnswer):
        list(client.follow())


def test_an_answer_that_is_no_stream_ends_it(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(body={})]
    with pytest.raises(BadAnswer, match="does not stream"):
        next(client.follow())


def test_a_proxys_page_while_the_api_is_away_is_one_more_loss(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(pieces=BEGIN), Reply(body={}), Reply(pieces=[*BEGIN, hosts("6-1-1", "a")])]
    found = list(islice(client.follow(), 5))
    assert [type(one) for one in found] == [Connected, Disconnected, Disconnected, Connected, HostsChanged]
