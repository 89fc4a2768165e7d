from __future__ import annotations

from itertools import islice

import pytest

from memhint.client.client import PAGE, Client
from memhint.client.errors import BadAnswer, Expired
from memhint.client.find import Ambiguous, NoSuchVm, find_uuid
from tests.unit.client.fake_server import Asked, FakeServer, Reply, problem

VM = "6f1d3c2a-0000-4000-8000-00000000000a"


def paged(total: int, name: str = "hosts", path: str = ""):
    """A list of so many, in parts as the server makes them."""

    def answer(asked: Asked) -> Reply:
        size, start = int(asked.query["limit"]), int(asked.query.get("marker", "0"))
        found = [{"name": f"h{number}"} for number in range(start, min(total, start + size))]
        body: dict[str, object] = {name: found, "changed": f"{100 + start}"}
        if start + size < total:
            body["next"] = f"{path}/v1/{name}?limit={size}&marker={start + size}"
        return Reply(body=body)

    return answer


def test_a_list_is_fetched_part_by_part_to_its_end(server: FakeServer, client: Client) -> None:
    server.answer = paged(2 * PAGE + 5)
    assert len(list(client.hosts(sort="headroom:desc"))) == 2 * PAGE + 5
    assert [one.query.get("marker") for one in server.asked] == [None, "1000", "2000"]
    assert {one.query["sort"] for one in server.asked} == {"headroom:desc"}


def test_no_more_is_fetched_than_is_taken(server: FakeServer, client: Client) -> None:
    server.answer = paged(10 * PAGE)
    assert len(list(islice(client.hosts(), 10))) == 10
    assert len(server.asked) == 1
    assert len(list(client.hosts(limit=7))) == 7
    assert server.asked[-1].query["limit"] == "7"
    assert len(list(client.hosts(limit=PAGE + 1))) == PAGE + 1


def test_only_the_marker_of_the_next_address_is_used(server: FakeServer, client: Client) -> None:
    server.answer = paged(PAGE + 1, path="http://elsewhere.example/moved")
    assert len(list(client.hosts())) == PAGE + 1
    assert server.asked[-1].path == "/v1/hosts"


def test_a_list_that_does_not_end_is_given_up(server: FakeServer, client: Client) -> None:
    server.answer = lambda asked: Reply(body={"hosts": [], "next": "/v1/hosts?marker=again", "changed": "1"})
    with pytest.raises(BadAnswer, match="does not come to an end"):
        list(client.hosts())


@pytest.mark.parametrize("body", [{}, {"hosts": None}, {"hosts": [1]}, {"hosts": [], "next": "/v1/hosts"}])
def test_an_answer_that_is_no_list_is_refused(server: FakeServer, client: Client, body: dict[str, object]) -> None:
    server.replies = [Reply(body=body)]
    with pytest.raises(BadAnswer):
        list(client.hosts())


def test_a_whole_list_has_the_token_of_its_first_part(server: FakeServer, client: Client) -> None:
    server.answer = paged(PAGE + 5)
    found = client.list_hosts()
    assert (len(found.items), found.changed) == (PAGE + 5, "100")


def test_changes_come_with_what_is_gone_and_the_next_token(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(body={"domains": [{"uuid": VM}], "deleted": ["x"], "changed": "8"})]
    found = client.changed_domains("7", host="h1")
    assert (found.items, found.deleted, found.changed) == ([{"uuid": VM}], ["x"], "8")
    assert server.asked[0].query == {"changed_since": "7", "host": "h1"}


def test_a_token_that_is_too_old_says_so(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(410, problem(410, "memhint.changed_since.expired"))]
    with pytest.raises(Expired):
        client.changed_hosts("1")


def test_names_are_one_part_of_the_path(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(body={"host": {}})]
    client.host("a/b?c#d")
    assert server.asked[0].path == "/v1/hosts/a%2Fb%3Fc%23d"


def test_a_policy_has_the_name_of_its_state(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(body={"policy": {"dedup": {}}}, headers={"ETag": '"abc"'}), Reply(body={"policy": {}})]
    found = client.policy(VM)
    client.set_policy(VM, {"dedup": None}, if_match=found.etag)
    assert server.asked[1].headers["if-match"] == '"abc"'
    assert server.asked[1].body == {"policy": {"dedup": None}}


def test_what_was_not_said_is_not_sent(server: FakeServer, client: Client) -> None:
    server.replies = [Reply(202, {"reclaim": {}}), Reply(body={"plan": {}})]
    client.reclaim(VM, "why", bytes=None, timeout=5.0, dry_run=None)
    client.plan(1 << 30, 3)
    assert server.asked[0].body == {"domain": VM, "reason": "why", "timeout": 5.0}
    assert server.asked[1].body == {"memory": 1 << 30, "count": 3}


def vms(*pairs: tuple[str, str]) -> Reply:
    return Reply(body={"domains": [{"name": name, "uuid": uuid, "host": "h"} for name, uuid in pairs], "changed": "1"})


def test_a_uuid_is_nobodys_name(server: FakeServer, client: Client) -> None:
    assert find_uuid(client, VM.upper()) == VM
    assert server.asked == []


def test_a_name_is_looked_for_on_the_server(server: FakeServer, client: Client) -> None:
    server.replies = [vms(("web-10", "u10"), ("web-1", "u1"))]
    assert find_uuid(client, "web-1", "h") == "u1"
    assert (server.asked[0].query["name"], server.asked[0].query["host"]) == ("web-1", "h")


def test_a_vm_that_two_hosts_tell_of_is_one(server: FakeServer, client: Client) -> None:
    lines = [{"name": "web-1", "uuid": "u1", "host": host} for host in ("dead", "new")]
    server.replies = [Reply(body={"domains": lines, "changed": "1"})]
    assert find_uuid(client, "web-1") == "u1"


def test_a_name_of_several_is_refused_with_their_uuids(server: FakeServer, client: Client) -> None:
    server.replies = [vms(("web-1", "u1"), ("web-1", "u2"))]
    with pytest.raises(Ambiguous, match="2 VMs are called 'web-1': use a UUID, one of u1 on h, u2 on h"):
        find_uuid(client, "web-1")


@pytest.mark.parametrize(("there", "hint"), [([("web-10", "u")], "there is web-10"), ([], "no name holds that word")])
def test_a_name_of_nobody_says_what_is_near(
    server: FakeServer, client: Client, there: list[tuple[str, str]], hint: str
) -> None:
    server.replies = [vms(*there)]
    with pytest.raises(NoSuchVm, match=hint):
        find_uuid(client, "web-1")
