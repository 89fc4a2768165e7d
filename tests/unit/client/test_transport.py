from __future__ import annotations

import logging
import time

import pytest
from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from memhint.client import body
from memhint.client.client import Client
from memhint.client.errors import (
    ApiError,
    BadAnswer,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    ServerFailed,
    TooMany,
    TooSlow,
    Unauthenticated,
    Unreachable,
)
from memhint.client.session import transport_of
from memhint.client.settings import Settings
from memhint.client.transport import ATTEMPTS, Transport
from tests.unit.client.conftest import Naps
from tests.unit.client.fake_server import FakeServer, Reply, problem

VM = "6f1d3c2a-0000-4000-8000-000000000001"


def test_a_request_shows_token_version_and_what_it_takes(server: FakeServer, transport: Transport) -> None:
    server.replies = [Reply(body={})]
    transport.get("/v1/hosts", {"sort": "name", "limit": 5, "dry_run": True, "fields": ["a", "b"], "marker": None})
    (asked,) = server.asked
    assert asked.headers["x-auth-token"] == "s3cret-token"
    assert asked.headers["openstack-api-version"] == "memhint 1.0"
    assert asked.headers["accept"] == "application/json"
    assert asked.query == {"sort": "name", "limit": "5", "dry_run": "true", "fields": "a,b"}


def test_without_a_token_none_is_shown(server: FakeServer) -> None:
    server.replies = [Reply(body={})]
    transport_of(Settings(server.url)).get("/v1/hosts")
    assert "x-auth-token" not in server.asked[0].headers


def test_an_api_beneath_a_path_is_asked_there(server: FakeServer) -> None:
    server.replies = [Reply(body={})]
    transport_of(Settings(f"{server.url}/memhint/")).get("/v1/hosts")
    assert server.asked[0].path == "/memhint/v1/hosts"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, Unauthenticated),
        (403, Forbidden),
        (404, NotFound),
        (405, BadRequest),
        (406, BadRequest),
        (409, Conflict),
        (410, Expired),
        (412, Conflict),
        (413, BadRequest),
        (500, ServerFailed),
    ],
)
def test_each_problem_has_its_type_and_says_what_to_do(
    server: FakeServer, transport: Transport, status: int, kind: type[ApiError]
) -> None:
    server.replies = [Reply(status, problem(status))]
    with pytest.raises(kind) as error:
        transport.get("/v1/hosts")
    found = error.value
    assert type(found) is kind
    assert (found.status, found.code, found.detail, found.request_id) == (
        status,
        "memhint.some.thing",
        "do this next",
        "req-1",
    )
    assert str(found) == f"do this next (HTTP {status}, memhint.some.thing, req-1)"
    assert len(server.asked) == 1


def test_keystones_own_answer_is_understood(server: FakeServer, transport: Transport) -> None:
    server.replies = [Reply(401, {"error": {"code": 401, "title": "Unauthorized", "message": "log in"}})]
    with pytest.raises(Unauthenticated, match=r"log in \(HTTP 401\)"):
        transport.get("/v1/hosts")


@pytest.mark.parametrize("body", [b"<html>no", b"[]", b'{"errors": "no"}', b'{"errors": [1]}', b"\xff\xfe"])
def test_a_problem_in_another_form_is_one_too(server: FakeServer, transport: Transport, body: bytes) -> None:
    server.replies = [Reply(404, body)]
    with pytest.raises(NotFound, match="is that the API"):
        transport.get("/v1/hosts")


def test_what_a_server_says_cannot_steer_a_terminal(server: FakeServer, transport: Transport) -> None:
    server.replies = [Reply(400, problem(400, detail="no\n\x1b[2J" + "x" * 2000))]
    with pytest.raises(BadRequest) as error:
        transport.get("/v1/hosts")
    assert "\x1b" not in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 700


_NO_OBJECTS = (
    *(b"<html>hello</html>", b"[1]", b"", b"{", b"[" * 100_000, b'{"a": ' * 100_000),
    *(b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": ' + 5000 * b"9" + b"}"),
)


@pytest.mark.parametrize("body", _NO_OBJECTS)
def test_an_answer_that_is_no_object_is_no_answer(server: FakeServer, transport: Transport, body: bytes) -> None:
    server.replies = [Reply(200, body)]
    with pytest.raises(BadAnswer):
        transport.get("/v1/hosts")


def test_an_answer_is_no_larger_than_any_of_the_api(
    server: FakeServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "LARGEST", 1 << 20)
    server.replies = [Reply(pieces=[65536 * b" "] * 17)]
    with pytest.raises(BadAnswer, match="more than 1 MiB"):
        transport.get("/v1/hosts")
    server.replies = [Reply(400, pieces=[65536 * b" "] * 17)]
    with pytest.raises(BadRequest):
        transport.get("/v1/hosts")


def test_an_answer_that_is_not_whole_in_time_is_given_up_where_nothing_hangs_up(server: FakeServer) -> None:
    server.answer = lambda _: Reply(pieces=[b'{"a": ', b"1}"])
    asked = Adapter(Session(auth=NoAuth(endpoint=server.url)), service_type="memhint")
    slow = Transport(asked, seconds=1.0, clock=lambda: time.monotonic() - 1.0)  # it is over as it begins
    with pytest.raises(TooSlow):
        slow.get("/v1/hosts")
    assert len(server.asked) == 1


def test_an_answer_that_breaks_off_is_asked_for_again(server: FakeServer, transport: Transport, naps: Naps) -> None:
    server.replies = [Reply(body=b'{"a": ', cut=True), Reply(body={"a": 1})]
    assert transport.get("/v1/hosts").body == {"a": 1}
    assert naps.taken == [0.5]


@pytest.mark.parametrize("status", [502, 503, 504, 429])
def test_reading_is_tried_again(server: FakeServer, transport: Transport, naps: Naps, status: int) -> None:
    server.replies = [Reply(status, problem(status)), Reply(body={"a": 1})]
    assert transport.get("/v1/hosts").body == {"a": 1}
    assert naps.taken == [0.5]


def test_reading_is_tried_again_where_the_server_hung_up(server: FakeServer, transport: Transport, naps: Naps) -> None:
    server.replies = [Reply(hang_up=True), Reply(hang_up=True), Reply(body={})]
    transport.get("/v1/hosts")
    assert naps.taken == [0.5, 1.0]


def test_it_is_not_tried_for_ever(server: FakeServer, transport: Transport) -> None:
    server.answer = lambda asked: Reply(503, problem(503))
    with pytest.raises(ServerFailed):
        transport.get("/v1/hosts")
    assert len(server.asked) == ATTEMPTS


def test_a_server_that_asks_to_wait_is_waited_for(server: FakeServer, transport: Transport, naps: Naps) -> None:
    server.replies = [Reply(429, problem(429), {"Retry-After": "7"}), Reply(body={})]
    transport.get("/v1/hosts")
    assert naps.taken == [7.0]


def test_one_that_asks_for_too_long_is_not(server: FakeServer, transport: Transport, naps: Naps) -> None:
    server.replies = [Reply(429, problem(429), {"Retry-After": "3600"})]
    with pytest.raises(TooMany) as error:
        transport.get("/v1/hosts")
    assert error.value.retry_after == 3600
    assert naps.taken == []


@pytest.mark.parametrize("reply", [Reply(503, problem(503)), Reply(hang_up=True)])
def test_a_change_is_asked_for_once(server: FakeServer, client: Client, reply: Reply) -> None:
    for change in (
        lambda: client.reclaim(VM, "why"),
        lambda: client.interrupt("r"),
        lambda: client.set_policy(VM, {"dedup": "on"}),
        lambda: client.clear_policy(VM),
    ):
        server.asked.clear()
        server.replies = [reply]
        with pytest.raises((ServerFailed, Unreachable)):
            change()
        assert len(server.asked) == 1


def test_a_change_that_was_one_request_too_many_was_not_made(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(429, problem(429)), Reply(202, {"reclaim": {"id": "r"}})]
    assert client.reclaim(VM, "why") == {"id": "r"}


def test_what_changes_nothing_is_asked_again(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(hang_up=True), Reply(body={"plan": {}})]
    client.plan(1 << 30)
    server.replies = [Reply(503, problem(503)), Reply(body={"policy": {}})]
    client.set_policy(VM, {"dedup": "on"}, dry_run=True)
    assert len(server.asked) == 4


def test_a_redirect_is_not_followed(server: FakeServer, transport: Transport) -> None:
    server.replies = [Reply(302, {}, {"Location": "http://elsewhere.example/"})]
    with pytest.raises(BadRequest, match=r"leads on to http://elsewhere\.example/"):
        transport.get("/v1/hosts")
    assert len(server.asked) == 1


def test_a_server_that_is_not_there_is_named_by_its_cause(server: FakeServer, naps: Naps) -> None:
    server.close()
    with pytest.raises(Unreachable, match=r"^Connection refused$"):
        transport_of(Settings(server.url), naps).get("/v1/hosts")
    assert len(naps.taken) == ATTEMPTS - 1


@pytest.mark.parametrize("error", [TypeError("'NoneType' object is not subscriptable"), KeyError("expires_at")])
def test_a_keystone_whose_token_is_none_is_not_there(server: FakeServer, naps: Naps, error: Exception) -> None:
    class Odd(NoAuth):
        def get_token(self, _session: Session, **_more: object) -> str:
            raise error

    adapter = Adapter(Session(auth=Odd()), endpoint_override=server.url)
    with pytest.raises(Unreachable, match="Keystone's answer cannot be read"):
        Transport(adapter, naps).get("/v1/hosts")
    assert server.asked == []


def test_no_token_is_logged(server: FakeServer, transport: Transport, caplog) -> None:
    server.replies = [Reply(body={})]
    with caplog.at_level(logging.DEBUG):
        transport.get("/v1/hosts")
    assert "/v1/hosts" in caplog.text
    assert "s3cret-token" not in caplog.text
