"""Looking at the hosts: pages, changes, ETags, and answers that are none."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from memhint_nova.client import HEADERS, PATH, HostsClient, Response
from memhint_nova.errors import LookFailed
from memhint_nova.host import FIELDS

from tests.told import told


class Server:
    """Answers by query, and keeps what it was asked."""

    def __init__(self, *answers: Response) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Mapping[str, str], Mapping[str, str]]] = []

    def get(self, path, params, headers) -> Response:
        assert path == PATH
        self.asked.append((dict(params), dict(headers)))
        return self.answers.pop(0)


def page(*hosts, etag=None, status=200, **more) -> Response:
    return Response(status, etag, json.dumps({"hosts": list(hosts), **more}).encode())


def client(server: Server, **settings) -> HostsClient:
    return HostsClient(server, settings.pop("most_seconds", 50.0), **settings)


def test_the_first_look_asks_for_everything_and_only_what_is_needed() -> None:
    server = Server(page(told(1), changed="t1"))
    news = client(server).look(None)
    assert ([one["name"] for one in news.hosts], news.token, news.whole) == (["host-1"], "t1", True)
    params, headers = server.asked[0]
    assert params == {"fields": ",".join(FIELDS), "limit": "1000"}
    assert headers == HEADERS


def test_pages_are_followed_with_the_first_ones_token() -> None:
    server = Server(
        page(told(1), changed="t1", next="https://elsewhere.example/other?limit=1000&marker=host-1&fields=name"),
        page(told(2), changed="t2"),
    )
    news = client(server).look(None)
    assert [one["name"] for one in news.hosts] == ["host-1", "host-2"]
    assert news.token == "t1"
    assert server.asked[1][0] == {"limit": "1000", "marker": "host-1", "fields": "name"}


def test_later_looks_ask_for_changes() -> None:
    server = Server(page(told(2), changed="t2", deleted=["host-1"]))
    news = client(server).look("t1")
    assert server.asked[0][0] == {"fields": ",".join(FIELDS), "changed_since": "t1"}
    assert (news.deleted, news.whole, news.token) == (("host-1",), False, "t2")


def test_unchanged_by_etag_is_no_news() -> None:
    server = Server(page(changed="t1", etag='"a"'), Response(304, None, b""), page(told(1), changed="t2", etag='"b"'))
    looks = client(server)
    assert looks.look("t1").hosts == ()
    assert looks.look("t1") is None
    assert server.asked[1][1]["If-None-Match"] == '"a"'
    assert looks.look("t1").token == "t2"


def test_an_etag_of_another_question_is_not_sent() -> None:
    server = Server(page(changed="t2", etag='"a"'), page(changed="t3"))
    looks = client(server)
    looks.look("t1")
    looks.look("t2")
    assert "If-None-Match" not in server.asked[1][1]


def test_an_expired_token_begins_anew_at_once() -> None:
    gone = Response(410, None, b'{"errors":[{"code":"memhint.changed_since.expired","title":"Gone","detail":"x"}]}')
    server = Server(gone, page(told(1), changed="t9"))
    news = client(server).look("old")
    assert (news.whole, news.token) == (True, "t9")
    assert "changed_since" not in server.asked[1][0]


def test_after_changes_that_could_not_be_had_everything_is_asked_for() -> None:
    server = Server(Response(400, None, b""), page(told(1), changed="t9"), page(changed="t10"))
    looks = client(server)
    with pytest.raises(LookFailed):
        looks.look("t1")
    assert looks.look("t1").whole
    assert not looks.look("t9").whole
    assert ["changed_since" in params for params, _ in server.asked] == [True, False, True]


def test_gone_without_a_token_is_a_failure_and_no_endless_loop() -> None:
    with pytest.raises(LookFailed):
        client(Server(Response(410, None, b""))).look(None)


@pytest.mark.parametrize(
    "answer",
    [
        Response(500, None, b"boom"),
        Response(401, None, b'{"errors":[{"title":"Unauthorized","detail":"no token"}]}'),
        Response(302, None, b""),
        Response(304, None, b""),
        Response(200, None, b"{"),
        Response(200, None, b"[" * 100_000),
        Response(200, None, b"\xff\xfe"),
        Response(200, None, b"[]"),
        Response(200, None, b"{}"),
        Response(200, None, b'{"hosts": {}}'),
        Response(200, None, b'{"hosts": [1]}'),
        Response(200, None, b'{"hosts": [], "deleted": [1]}'),
        Response(200, None, b'{"hosts": [], "changed": 4}'),
        Response(200, None, b'{"hosts": [], "next": 4}'),
    ],
)
def test_what_is_no_answer_is_a_failure(answer) -> None:
    with pytest.raises(LookFailed):
        client(Server(answer)).look(None)


def test_half_a_walk_is_no_news() -> None:
    with pytest.raises(LookFailed):
        client(Server(page(told(1), changed="t1", next="/v1/hosts?marker=a"), Response(503, None, b""))).look(None)


def test_what_an_error_says_is_in_the_failure() -> None:
    answer = Response(403, None, b'{"errors":[{"title":"Forbidden","detail":"ask for the role service"}]}')
    with pytest.raises(LookFailed, match="status 403: Forbidden: ask for the role service"):
        client(Server(answer)).look(None)


def test_a_list_that_does_not_end_is_given_up() -> None:
    class Endless:
        def get(self, path, params, headers):
            return page(changed="t", next="/v1/hosts?marker=again")

    with pytest.raises(LookFailed, match="does not end"):
        HostsClient(Endless(), 1e9).look(None)


def test_slow_pages_are_given_up() -> None:
    now = iter(range(0, 1000, 30))
    server = Server(*[page(changed="t", next="/v1/hosts?marker=a")] * 5)
    with pytest.raises(LookFailed, match="longer than 50 s"):
        client(server, clock=lambda: next(now)).look(None)
