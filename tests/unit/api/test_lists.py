from __future__ import annotations

import base64
import json
import time
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from sqlalchemy import create_engine, literal, select

from memhint.api.server import HEADERS_MOST
from memhint.objects.summary import DOMAIN_SORT_KEYS as OF_DOMAINS
from memhint.objects.summary import HOST_SORT_KEYS as OF_HOSTS
from memhint.store.errors import MarkerError
from memhint.store.fleet import State
from memhint.store.pages import Order
from memhint.store.tables import domain
from tests.unit import builders
from tests.unit.api.site import FLEET, HOSTS, OWN, VMS, Site


def follow(site: Site, path: str, name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    while path:
        answer = site.get(path).get_json()
        found += answer[name]
        path = answer.get("next", "")
    return found


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("key", OF_HOSTS)
def test_pages_of_hosts_show_each_once_and_in_order(site: Site, key: str, direction: str) -> None:
    found = follow(site, f"/v1/hosts?limit=4&sort={key}:{direction}", "hosts")
    assert sorted(str(one["name"]) for one in found) == [FLEET.name(number) for number in range(HOSTS)]
    known = [one[key] for one in found if one[key] is not None]
    assert known == sorted(known, reverse=direction == "desc")  # type: ignore[type-var]
    assert [one[key] for one in found][: len(known)] == known  # what is unknown comes last


@pytest.mark.parametrize("key", OF_DOMAINS)
def test_pages_of_vms_show_each_once_and_in_order(site: Site, key: str) -> None:
    found = follow(site, f"/v1/domains?limit=5&sort={key}:desc", "domains")
    assert len({one["uuid"] for one in found}) == len(found) == HOSTS * VMS
    known = [one[key] for one in found if one[key] is not None]
    assert known == sorted(known, reverse=True)  # type: ignore[type-var]


def test_only_the_members_that_were_asked_for_are_there_on_every_page(site: Site) -> None:
    found = follow(site, "/v1/domains?limit=10&fields=name,class", "domains")
    assert len(found) == HOSTS * VMS
    assert {tuple(one) for one in found} == {("name", "class")}


def test_vms_are_found_by_host_name_state_and_project(site: Site) -> None:
    everything = follow(site, "/v1/domains", "domains")
    for query, wanted in (
        (f"host={FLEET.name(1)}", lambda one: one["host"] == FLEET.name(1)),
        ("name=WEB", lambda one: "web" in one["name"]),
        ("state=running", lambda one: one["state"] == "running"),
        (f"project={OWN}", lambda one: one["project"] == OWN),
    ):
        found = follow(site, f"/v1/domains?{query}", "domains")
        assert [one["uuid"] for one in found] == [one["uuid"] for one in everything if wanted(one)]


@pytest.mark.parametrize("typed", ["\u00c4rzte-1", "\u00c4", "\u00c4R", "RZTE", "\u0130"])
def test_vms_are_found_by_letters_that_the_database_has_no_small_ones_of(site: Site, typed: str) -> None:
    seen = builders.domain_observation(name="\u00c4rzte-1 \u0130")
    vms = (builders.domain_report(observation=seen),)
    report = builders.report(epoch="001700000000000-0000000a", at=time.time(), domains=vms)
    site.store.fleet.take([State(report, 10.0)])
    answer = site.get(f"/v1/domains?{urlencode({'name': typed})}").get_json()
    assert [one["name"] for one in answer["domains"]] == [seen.name]


def test_only_what_changed_is_told_and_what_is_gone(site: Site) -> None:
    hosts, domains = site.get("/v1/hosts").get_json()["changed"], site.get("/v1/domains").get_json()["changed"]
    nothing = site.get(f"/v1/hosts?changed_since={hosts}").get_json()
    assert (nothing["hosts"], nothing["deleted"], nothing["changed"]) == ([], [], hosts)
    report = builders.report(host="new", epoch="001700000000000-0000000a", at=time.time())
    site.store.fleet.take([State(report, 10.0)])
    told = site.get(f"/v1/hosts?changed_since={hosts}&fields=name").get_json()
    assert told["hosts"] == [{"name": "new"}]
    assert int(told["changed"]) > int(hosts)
    vms = site.get(f"/v1/domains?changed_since={domains}").get_json()
    assert {one["uuid"] for one in vms["domains"]} == {builders.WEB, builders.DB, builders.OLD}
    later = builders.report(host="new", epoch=report.epoch, sequence=8, at=time.time(), domains=report.domains[:1])
    site.store.fleet.take([State(later, 20.0)])
    gone = site.get(f"/v1/domains?changed_since={vms['changed']}").get_json()
    assert gone["deleted"] == sorted([builders.DB, builders.OLD])


def test_what_changed_too_long_ago_begins_anew(site: Site) -> None:
    for path in ("/v1/hosts", "/v1/domains"):
        answer = site.get(f"{path}?changed_since=1")
        assert answer.status_code == 410
        assert answer.get_json()["errors"][0]["code"] == "memhint.changed_since.expired"


def test_events_are_newest_first_and_each_once(site: Site) -> None:
    whole = site.get("/v1/events?limit=1000").get_json()["events"]
    assert [one["at"] for one in whole] == sorted((one["at"] for one in whole), reverse=True)
    assert {one["kind"] for one in whole} == {"lever", "appeared"}
    assert follow(site, "/v1/events?limit=3", "events") == whole
    lever = follow(site, "/v1/events?kind=lever&limit=2", "events")
    assert lever == [one for one in whole if one["kind"] == "lever"]
    host = FLEET.name(2)
    assert follow(site, f"/v1/events?host={host}", "events") == [one for one in whole if one["host"] == host]
    uuid = lever[0]["domain"]
    assert follow(site, f"/v1/events?domain={uuid}", "events") == [one for one in whole if one["domain"] == uuid]
    newest = whole[0]["at"]
    assert follow(site, f"/v1/events?since={newest!r}", "events") == [one for one in whole if one["at"] >= newest]


def test_refusals_are_the_pulls_that_something_stood_against(site: Site) -> None:
    found = follow(site, "/v1/refusals?limit=2", "refusals")
    assert found
    assert {one["answer"] for one in found} <= {"refused", "conflict", "unsupported", "failed"}
    assert all(one["lever"] and one["reason"] for one in found)
    one = found[0]
    events = site.get("/v1/events?kind=lever&limit=1000").get_json()["events"]
    assert {**one, "kind": "lever"} in events


@pytest.mark.parametrize("name", ["events", "refusals", "reclaims"])
def test_a_uuid_in_capitals_is_the_same_vm(site: Site, name: str) -> None:
    refused = site.get("/v1/refusals").get_json()["refusals"]
    uuid = next(one["domain"] for one in refused if one["domain"].upper() != one["domain"])
    for _ in range(2):
        assert site.ask("POST", "/v1/reclaims", json={"domain": uuid, "reason": "a test"}).status_code == 202
    found = follow(site, f"/v1/{name}?limit=1&domain={uuid}", name)
    assert found
    assert follow(site, f"/v1/{name}?limit=1&domain={uuid.upper()}", name) == found


@pytest.mark.parametrize(
    "plain",
    [
        ["name", False, "\ud800", "a"],
        ["name", False, "a", "\ud800"],
        ["name", False, 5, "a"],
        ["headroom", False, 1e999, "a"],
        ["headroom", False, float("nan"), "a"],
        ["headroom", False, 2**63, "a"],
        ["headroom", False, True, "a"],
        ["headroom", False, "a", "a"],
        [],
        {},
    ],
)
def test_a_marker_that_somebody_made_is_refused_or_finds_its_place(site: Site, plain: object) -> None:
    marker = base64.urlsafe_b64encode(json.dumps(plain).encode()).decode().rstrip("=")
    sort = plain[0] if isinstance(plain, list) and plain else "name"
    answer = site.get(f"/v1/hosts?sort={sort}&marker={marker}")
    assert answer.status_code in (200, 400)


@pytest.mark.parametrize("letter", ["\x01", "\N{GRINNING FACE}", "\N{CJK UNIFIED IDEOGRAPH-6F22}", '"', "a"])
@pytest.mark.parametrize("sort", ["name", "host"])
def test_a_part_may_end_with_a_vm_of_any_name(site: Site, letter: str, sort: str) -> None:
    named = [letter * 254 + str(number) for number in range(3)]
    vms = tuple(
        builders.domain_report(observation=builders.domain_observation(uuid=f"{builders.WEB[:-1]}{number}", name=name))
        for number, name in enumerate(named)
    )
    report = builders.report(host=letter * 255, epoch="001700000000000-0000000a", at=time.time(), domains=vms)
    site.store.fleet.take([State(report, 10.0)])
    found = follow(site, f"/v1/domains?limit=1&sort={sort}", "domains")
    assert len(found) == HOSTS * VMS + len(named)
    assert [one["name"] for one in found if one["host"] == report.host] == named
    addresses = [site.get(f"/v1/domains?limit={number}&sort={sort}").get_json().get("next") for number in range(1, 27)]
    assert max(map(len, filter(None, addresses))) < HEADERS_MOST / 2


def test_half_a_character_in_a_name_ends_no_list_in_a_fault() -> None:
    order = Order("name", domain.c.name, (domain.c.uuid,), False)
    with create_engine("sqlite://").connect() as connection:
        row = connection.execute(select(literal("a").label("sorted_by"), literal("b").label("key_0"))).one()
    broken = SimpleNamespace(sorted_by="\ud83d", _mapping=row._mapping)
    with pytest.raises(MarkerError):
        order.apply(select(domain.c.uuid), order.marker(broken), 1)  # type: ignore[arg-type]
    order.apply(select(domain.c.uuid), order.marker(row), 1)


def test_a_field_that_there_is_not_names_all_that_there_are(site: Site) -> None:
    answer = site.get("/v1/domains?fields=nope")
    (error,) = answer.get_json()["errors"]
    assert (answer.status_code, error["code"]) == (400, "memhint.query.invalid")
    assert error["detail"].startswith("fields[0]: 'nope' is not known here: use uuid, name, host, ")
    assert error["detail"].endswith(", at")
