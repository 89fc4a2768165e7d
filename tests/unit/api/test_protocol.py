"""What holds of every answer: ids, versions, problems, headers, entity tags, and what is never in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from memhint.api import http
from memhint.api.routes import ROUTES
from memhint.store.errors import StoreError, StoreRefused
from tests.unit.api.site import Site


def code(answer: Any) -> str:
    (error,) = answer.get_json()["errors"]
    assert error["status"] == answer.status_code
    assert error["detail"]
    return str(error["code"])


def test_every_answer_has_its_request_id_and_the_security_headers(site: Site) -> None:
    for path, who in (("/", None), ("/v1/hosts", "admin"), ("/v1/hosts", None), ("/nowhere", None), ("/healthz", None)):
        answer = site.get(path, who)
        assert re.fullmatch(r"req-[0-9a-f-]{36}", answer.headers["X-Openstack-Request-Id"])
        for name, value in http.SECURITY.items():
            assert answer.headers[name] == value
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert site.get("/").headers["X-Openstack-Request-Id"] != site.get("/").headers["X-Openstack-Request-Id"]


@pytest.mark.parametrize(
    ("said", "status", "told"),
    [
        (None, 200, "memhint 1.0"),
        ("memhint 1.0", 200, "memhint 1.0"),
        ("memhint latest", 200, "memhint 1.0"),
        ("compute 2.90, memhint 1.0", 200, "memhint 1.0"),
        ("compute 2.90", 200, "memhint 1.0"),
        ("memhint 1.1", 406, "memhint 1.0"),
        ("memhint 0.9", 406, "memhint 1.0"),
        ("memhint one", 400, "memhint 1.0"),
        ("memhint 1", 400, "memhint 1.0"),
        ("memhint 1.0.0", 400, "memhint 1.0"),
    ],
)
def test_versions_are_told_and_held_to(site: Site, said: str | None, status: int, told: str) -> None:
    answer = site.get("/v1/hosts", headers={"OpenStack-API-Version": said} if said else {})
    assert answer.status_code == status
    assert answer.headers["OpenStack-API-Version"] == told
    assert "OpenStack-API-Version" in answer.headers["Vary"]
    if status == 406:
        (error,) = answer.get_json()["errors"]
        assert (error["min_version"], error["max_version"]) == ("1.0", "1.0")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/hosts?limt=1", "query.unknown"),
        ("/v1/hosts?limit=1&limit=2", "query.repeated"),
        ("/v1/hosts?limit=0", "query.invalid"),
        ("/v1/hosts?limit=1001", "query.invalid"),
        ("/v1/hosts?limit=+1", "query.invalid"),
        ("/v1/hosts?limit=1e2", "query.invalid"),
        ("/v1/hosts?limit=١", "query.invalid"),
        ("/v1/hosts?sort=colour", "query.invalid"),
        ("/v1/hosts?sort=name:up", "query.invalid"),
        ("/v1/hosts?fields=name,name", "query.invalid"),
        ("/v1/hosts?fields=", "query.invalid"),
        ("/v1/hosts?fields=colour", "query.invalid"),
        ("/v1/hosts?marker=xyz", "marker.invalid"),
        ("/v1/hosts?changed_since=abc", "query.invalid"),
        ("/v1/hosts?changed_since=1&sort=name", "changed_since.alone"),
        ("/v1/domains?state=gone", "query.invalid"),
        ("/v1/domains?name=%00", "query.invalid"),
        ("/v1/history?since=nan", "query.invalid"),
        ("/v1/history?since=inf", "query.invalid"),
        ("/v1/history?since=-1", "query.invalid"),
        ("/v1/events?marker=1,2,3", "marker.invalid"),
        ("/v1/reclaims?marker=nan,x", "marker.invalid"),
        ("/v1/stream?since=x", "query.invalid"),
    ],
)
def test_words_of_a_query_that_are_not_known_are_refused(site: Site, path: str, told: str) -> None:
    answer = site.get(path)
    assert answer.status_code == 400
    assert code(answer) == f"memhint.{told}"


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ("", 400, "body.not_json"),
        ("{", 400, "body.not_json"),
        ("\xff", 400, "body.not_json"),
        ('{"memory": NaN}', 400, "body.not_json"),
        ('{"memory": 1e999}', 400, "body.not_json"),
        ('{"memory": 1048576, "memory": 1048577}', 400, "body.not_json"),
        ("[" * 60_000, 400, "body.not_json"),
        ('{"memory": ' + "9" * 5000 + "}", 400, "body.not_json"),
        ("[]", 400, "body.invalid"),
        ("{}", 400, "body.invalid"),
        ('{"memory": "much"}', 400, "body.invalid"),
        ('{"memory": true}', 400, "body.invalid"),
        ('{"memory": 1048576, "colour": "red"}', 400, "body.invalid"),
        ('{"memory": 1048576, "count": 0}', 400, "body.invalid"),
        ('{"memory": 1048576, "hosts": ["\\ud800"]}', 400, "body.not_json"),
        ('{"memory": 1048576, "hosts": ["\\u0000"]}', 400, "body.invalid"),
        (" " * 65_537, 413, "body.too_large"),
    ],
)
def test_bodies_that_are_none_are_refused(site: Site, body: str, status: int, told: str) -> None:
    answer = site.ask("POST", "/v1/plans", data=body.encode("latin-1"), content_type="application/json")
    assert answer.status_code == status
    assert code(answer) == f"memhint.{told}"


def test_a_body_says_what_it_is(site: Site) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = site.ask("POST", "/v1/plans", data=b'{"memory": 1048576}', content_type=kind)
        assert answer.status_code == 415
    chunked = site.ask(
        "POST", "/v1/plans", data=b" " * 70_000, content_type="application/json", headers={"Content-Length": ""}
    )
    assert chunked.status_code in (400, 413)


def test_addresses_that_are_none_and_methods_that_are_none(site: Site) -> None:
    for path in ("/nowhere", "/v1", "/v1/", "/v1/hosts/", "//v1/hosts", "/v1/hosts/a/b/c", "/dashboards"):
        answer = site.get(path)
        assert answer.status_code == 404
        assert code(answer) == "memhint.address.not_found"
    answer = site.ask("DELETE", "/v1/hosts")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert site.ask("TRACE", "/").status_code == 405
    for path in (
        "/v1/hosts/nobody",
        "/v1/hosts/%00",
        "/v1/hosts/%ff",
        "/v1/domains/x",
        f"/v1/domains/{'0' * 8}-0000-0000-0000-{'0' * 12}",
    ):
        assert site.get(path).status_code == 404


def test_what_a_client_has_is_not_sent_again(site: Site) -> None:
    first = site.get("/v1/domains?limit=2")
    tag = first.headers["ETag"]
    again = site.get("/v1/domains?limit=2", headers={"If-None-Match": f'"x", {tag}'})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == tag
    assert site.get("/v1/domains?limit=3", headers={"If-None-Match": tag}).status_code == 200
    head = site.ask("HEAD", "/v1/domains?limit=2")
    assert (head.data, head.headers["ETag"], head.content_length) == (b"", tag, first.content_length)


def test_a_fault_of_ours_tells_nothing_of_the_inside(site: Site, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    def fail(self: object) -> str:
        raise RuntimeError("the password is sesame")

    monkeypatch.setattr(type(site.store.hosts_view), "token", fail)
    answer = site.get("/v1/hosts")
    assert (answer.status_code, code(answer)) == (500, "memhint.internal")
    assert "sesame" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.headers["X-Openstack-Request-Id"] in caplog.text  # the operator finds it there
    assert "sesame" in caplog.text


def test_a_store_that_is_away_is_said_to_be(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> str:
        raise StoreError("postgresql://memhint:***@db/memhint: gone")

    monkeypatch.setattr(type(site.store.hosts_view), "token", fail)
    answer = site.get("/v1/hosts")
    assert (answer.status_code, code(answer)) == (503, "memhint.store.away")
    assert "postgresql" not in answer.text
    health = site.get("/healthz", None)
    assert health.status_code == 503
    assert health.get_json() == {"status": "failing", "store": "away", "bus": "off"}


def test_too_many_requests_are_told_when_to_come_back(make_site: Callable[..., Site]) -> None:
    site = make_site(rate="0.001", burst="3")  # so slow that no further one is let in meanwhile
    assert [site.get("/v1/hosts").status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = site.get("/v1/hosts")
    assert int(answer.headers["Retry-After"]) >= 1
    assert code(answer) == "memhint.too_many_requests"
    assert site.get("/v1/hosts", "service").status_code == 200  # each for himself
    for _ in range(3):
        assert site.get("/v1/hosts", None, headers={"X-Auth-Token": "guess"}).status_code == 401
    assert site.get("/v1/hosts", None, headers={"X-Auth-Token": "guess"}).status_code == 429


def test_the_dashboard_is_found_without_its_last_slash(site: Site) -> None:
    page = site.get("/dashboard", None)
    assert (page.status_code, page.headers["Location"]) == (308, "/dashboard/")


def test_a_browser_is_led_to_the_dashboard_and_a_program_is_not(site: Site) -> None:
    page = site.get("/", None, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (page.status_code, page.headers["Location"]) == (302, "/dashboard/")
    assert site.get("/", None, headers={"Accept": "*/*"}).get_json()["versions"][0]["id"] == "v1"
    assert site.get("/dashboard/", None).mimetype == "text/html"


def test_the_dashboard_is_told_what_each_policy_key_takes(site: Site) -> None:
    answer = site.client.get("/dashboard/parts/policy_keys.js")  # no template of the description has its slash
    assert (answer.status_code, answer.mimetype) == (200, "text/javascript")
    assert '"name": "reporting_order"' in answer.text


@pytest.mark.parametrize(
    "path", ["../secret", "..%2fsecret", "%2e%2e/secret", "/etc/passwd", "..\\secret", "none.js", "%00"]
)
def test_the_dashboard_has_no_file_outside_its_own(site: Site, path: str) -> None:
    answer = site.get(f"/dashboard/{path}", None)
    assert answer.status_code == 404
    assert b"no file of the dashboard" not in answer.data


def test_secrets_are_in_no_log_whatever_is_asked(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for route in ROUTES:
        path = re.sub(r"<(?:path:)?\w+>", "x", route.path)
        for who in (*site.tokens, None):
            site.ask(route.method, path, who, data=b"{", content_type="application/json").close()
            site.ask(route.method, path, who, headers={"Authorization": "Bearer my-own-secret"}).close()
            site.ask(route.method, f"{path}?token=my-own-secret", who).close()
    assert len(caplog.records) > len(ROUTES)
    for token in (*site.tokens.values(), "my-own-secret"):
        assert token not in caplog.text


def test_every_answer_that_is_json_says_so_and_parses(site: Site) -> None:
    answer = site.get("/openapi.json", None)
    assert answer.content_type == "application/json"
    assert json.loads(answer.data)["openapi"] == "3.1.0"


def test_a_value_that_the_database_refuses_is_the_callers_fault(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> str:
        raise StoreRefused("postgresql://memhint:***@db/memhint: invalid byte sequence")

    monkeypatch.setattr(type(site.store.hosts_view), "token", fail)
    answer = site.get("/v1/hosts")
    assert (answer.status_code, code(answer)) == (400, "memhint.value.refused")
    assert "postgresql" not in answer.text
