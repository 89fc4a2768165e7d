"""Every route against every kind of caller. A route without a row here fails: nobody forgets to think of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memhint.api.context import Context
from memhint.api.policies import list_rules
from memhint.api.route import Route
from memhint.api.routes import ROUTES
from tests.unit.api.site import OTHER, OWN, Site

NOBODY = "nobody"
CALLERS = (NOBODY, "reader", "own", "other", "service", "admin")
OPEN = dict.fromkeys(CALLERS, 200)
WHOLE = {NOBODY: 401, "reader": 200, "own": 403, "other": 403, "service": 200, "admin": 200}
OWN_ONLY = {**WHOLE, "own": 200, "other": 404}  # of one VM: what is another project's is not there
LISTED = {**WHOLE, "own": 200, "other": 200}  # of all: each is given its own
CHANGE = {**dict.fromkeys(CALLERS, 403), NOBODY: 401, "admin": 200}
QUEUED = {**CHANGE, "admin": 202}

EXPECTED: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("GET", "/"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/dashboard/"): OPEN,
    ("GET", "/dashboard/<path:file>"): OPEN,
    ("GET", "/v1/hosts"): WHOLE,
    ("GET", "/v1/hosts/<name>"): WHOLE,
    ("GET", "/v1/hosts/<name>/history"): WHOLE,
    ("GET", "/v1/history"): WHOLE,
    ("GET", "/v1/promises"): WHOLE,
    ("GET", "/v1/domains"): LISTED,
    ("GET", "/v1/domains/<uuid>"): OWN_ONLY,
    ("GET", "/v1/domains/<uuid>/history"): OWN_ONLY,
    ("GET", "/v1/domains/<uuid>/policy"): OWN_ONLY,
    ("PUT", "/v1/domains/<uuid>/policy"): CHANGE,
    ("DELETE", "/v1/domains/<uuid>/policy"): CHANGE,
    ("POST", "/v1/plans"): WHOLE,
    ("POST", "/v1/reclaims"): QUEUED,
    ("GET", "/v1/reclaims"): LISTED,
    ("GET", "/v1/reclaims/<id>"): OWN_ONLY,
    ("DELETE", "/v1/reclaims/<id>"): QUEUED,
    ("GET", "/v1/refusals"): WHOLE,
    ("GET", "/v1/events"): LISTED,
    ("GET", "/v1/stream"): WHOLE,
    ("GET", "/metrics"): WHOLE,
}


def test_every_route_has_its_row_and_no_row_is_left_over() -> None:
    assert [(one.method, one.path) for one in ROUTES] == list(EXPECTED)


@pytest.mark.parametrize("route", ROUTES, ids=lambda one: f"{one.method} {one.path}")
def test_who_may_do_it(route: Route, site: Site) -> None:
    uuid = site.domain(OWN)
    made = site.ask("POST", "/v1/reclaims", json={"domain": uuid, "reason": "a test"})
    assert made.status_code == 202, made.text
    places = {"name": "compute-0000", "uuid": uuid, "id": made.get_json()["reclaim"]["id"], "file": "index.html"}
    path = route.path.replace("path:", "")
    for name, value in places.items():
        path = path.replace(f"<{name}>", value)
    bodies: dict[str, Any] = {
        "/v1/domains/<uuid>/policy": {"policy": {"dedup": "off"}},
        "/v1/plans": {"memory": 1 << 30},
        "/v1/reclaims": {"domain": uuid, "reason": "a test"},
    }
    more = {"json": bodies[route.path]} if route.body is not None else {}
    found = {}
    for caller in CALLERS:
        answer = site.ask(route.method, path, None if caller == NOBODY else caller, **more)
        found[caller] = answer.status_code
        if answer.status_code in (401, 403, 404):
            (error,) = answer.get_json()["errors"]
            assert error["request_id"] == answer.headers["X-Openstack-Request-Id"]
        assert ("WWW-Authenticate" in answer.headers) == (answer.status_code == 401)
        answer.close()
    assert found == EXPECTED[route.method, route.path]


@pytest.mark.parametrize("route", [one for one in ROUTES if one.rule], ids=lambda one: f"{one.method} {one.path}")
def test_a_token_that_is_nobodys_is_refused_everywhere(route: Route, site: Site) -> None:
    for header in ({"X-Auth-Token": "wrong"}, {"Authorization": "Bearer wrong"}):
        answer = site.ask(route.method, route.path, None, headers=header)
        assert answer.status_code == 401
        assert answer.get_json()["errors"][0]["code"] == "memhint.token.unknown"


def test_each_rule_is_of_a_route_and_each_route_names_one_that_there_is() -> None:
    rules = {one.name: one for one in list_rules()}
    used = {one.rule for one in ROUTES if one.rule is not None}
    assert used <= set(rules)
    assert {name for name in rules if name.count(":") == 2} == used
    for route in ROUTES:
        if route.rule is not None:
            path = route.path.replace("<", "{").replace(">", "}")
            operations = rules[route.rule].operations  # type: ignore[attr-defined]
            assert {"method": route.method, "path": path} in operations


def test_lists_show_a_project_its_own_only(site: Site) -> None:
    everything = site.get("/v1/domains?limit=1000").get_json()["domains"]
    own = site.get("/v1/domains?limit=1000", "own").get_json()["domains"]
    assert own == [one for one in everything if one["project"] == OWN]
    assert 0 < len(own) < len(everything)
    assert site.get(f"/v1/domains?project={OTHER}", "own").status_code == 403
    uuids = {one["uuid"] for one in own}
    events = site.get("/v1/events?limit=1000", "own").get_json()["events"]
    assert events
    assert {one["domain"] for one in events} <= uuids
    for uuid in (site.domain(OWN), site.domain(OTHER)):
        site.ask("POST", "/v1/reclaims", json={"domain": uuid, "reason": "a test"})
    assert {one["domain"] for one in site.get("/v1/reclaims", "own").get_json()["reclaims"]} == {site.domain(OWN)}
    assert site.get("/v1/domains?changed_since=1", "own").status_code == 400


def test_a_reader_without_any_project_who_is_not_of_the_system_sees_nobodys_vms(site: Site) -> None:
    lost = Context(name="lost", known=True, roles=["reader"])
    allowed = site.application.parts.enforcer.allowed
    assert not allowed("memhint:domains:show", lost, None)
    assert not allowed("memhint:hosts:list", lost, None)
    assert allowed("memhint:domains:show", Context(name="a", known=True, roles=["reader"], project="p"), "p")


def test_nothing_that_a_browser_does_by_itself_says_who_somebody_is(site: Site) -> None:
    token = site.tokens["admin"]
    for header in (f"token={token}", f"X-Auth-Token={token}", f"session={token}"):
        assert site.get("/v1/hosts", None, headers={"Cookie": header}).status_code == 401
    for path in ("/", "/dashboard/", "/v1/hosts"):
        assert "Set-Cookie" not in site.get(path).headers
