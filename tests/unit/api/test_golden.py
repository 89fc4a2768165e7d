"""Every answer of the API byte for byte, a file per resource in tests/golden/api."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from memhint.api import http, microversion
from memhint.api.routes import ROUTES
from memhint.objects.units import GIB
from tests import golden
from tests.golden.fleet import FLEET, FULL_HOST, MOMENT, filled_store, hold_still
from tests.unit.api.site import OWN, Site
from tests.unit.builders import DB, WEB

KEPT = Path(golden.__file__).parent / "api"
HEADERS = ("Content-Type", "Cache-Control", "ETag", "Retry-After", "Allow", "WWW-Authenticate", "Location")
PRESSED = FLEET.name(11)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled_store(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def site(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    hold_still(monkeypatch)
    shutil.copy(filled, tmp_path / "memhint.db")
    one = Site(f"sqlite:///{tmp_path}/memhint.db", tmp_path, {}, clock=lambda: MOMENT)
    yield one
    one.close()


class Script:
    """What was asked, one thing after the other, and each answer."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._parts: list[str] = []

    def ask(self, method: str, path: str, who: str | None = "admin", **more: Any) -> TestResponse:
        asked = [f">>> {method} {path}", f"    as {who or 'nobody'}"]
        asked += [f"    {name}: {value}" for name, value in more.get("headers", {}).items()]
        asked += [f"    {json.dumps(more['json'])}"] if "json" in more else []
        answer = self._site.ask(method, path, who, **more)
        told = [f"{name}: {answer.headers[name]}" for name in HEADERS if name in answer.headers]
        self._parts.append("\n".join([*asked, str(answer.status_code), *told, _body(answer), ""]))
        return answer

    def kept(self, name: str) -> None:
        golden.check(KEPT / f"{name}.txt", "\n".join(self._parts))


def _body(answer: TestResponse) -> str:
    """JSON with a line for each value: the bytes are what this reads as, dumped again."""
    if answer.mimetype != "application/json":
        return answer.text
    assert http.dump(answer.get_json()) == answer.data
    return json.dumps(answer.get_json(), indent=1, ensure_ascii=False)


@pytest.fixture
def script(site: Site) -> Script:
    return Script(site)


def test_hosts(script: Script) -> None:
    page = script.ask("GET", "/v1/hosts?limit=2&sort=headroom:desc").get_json()
    script.ask("GET", page["next"])
    script.ask("GET", "/v1/hosts?fields=name,headroom,state")
    script.ask("GET", f"/v1/hosts?changed_since={page['changed']}")
    for name in (FULL_HOST, PRESSED, "stranger"):
        script.ask("GET", f"/v1/hosts/{name}")
    script.ask("GET", f"/v1/hosts/{PRESSED}/history?since={MOMENT - 7200}")
    script.ask("GET", "/v1/hosts?limit=0")
    script.ask("GET", "/v1/hosts?colour=red")
    script.ask("GET", f"/v1/hosts?changed_since={page['changed']}&limit=1")
    script.ask("GET", "/v1/hosts", "own")
    script.ask("GET", "/v1/hosts", None)
    script.kept("hosts")


def test_domains(script: Script) -> None:
    page = script.ask("GET", f"/v1/domains?host={FULL_HOST}&sort=unreported:desc&limit=2").get_json()
    script.ask("GET", page["next"])
    script.ask("GET", "/v1/domains?state=running&fields=name,host", "own")
    script.ask("GET", "/v1/domains?project=green", "own")
    script.ask("GET", f"/v1/domains?changed_since={page['changed']}")
    for uuid in (WEB, DB, WEB.replace("1", "f")):
        script.ask("GET", f"/v1/domains/{uuid}")
    own = script.ask("GET", f"/v1/domains?project={OWN}&limit=1").get_json()["domains"][0]["uuid"]
    script.ask("GET", f"/v1/domains/{own}/history?since=0")
    script.kept("domains")


def test_policies(script: Script) -> None:
    path = f"/v1/domains/{WEB}/policy"
    tag = script.ask("GET", path).headers["ETag"]
    wishes = {"policy": {"balloon": "allow", "min_mb": "512", "dedup": "on"}}
    script.ask("PUT", f"{path}?dry_run=true", json=wishes)
    script.ask("PUT", path, json=wishes, headers={"If-Match": tag})
    script.ask("PUT", path, json=wishes, headers={"If-Match": tag})
    script.ask("PUT", path, json={"policy": {"balloon": None}})
    for wrong in ({"policy": {"balloon": "maybe"}}, {"policy": {"colour": "red"}}, {}):
        script.ask("PUT", path, json=wrong)
    script.ask("PUT", path, "reader", json=wishes)
    script.ask("PUT", f"/v1/domains/{DB}/policy", json=wishes)
    script.ask("DELETE", path)
    script.kept("policies")


def test_plans(script: Script) -> None:
    script.ask("POST", "/v1/plans", json={"memory": 4 * GIB, "count": 20})
    script.ask("POST", "/v1/plans", json={"memory": 4 * GIB, "hosts": [FULL_HOST, PRESSED, "stranger"]})
    script.ask("POST", "/v1/plans", json={"memory": 1})
    script.kept("plans")


def test_reclaims(script: Script) -> None:
    body = {"domain": WEB, "reason": "a test"}
    one = script.ask("POST", "/v1/reclaims", json=body).get_json()["reclaim"]["id"]
    script.ask("POST", "/v1/reclaims", json={**body, "dry_run": True, "bytes": 64 << 20, "hold": 60})
    script.ask("POST", "/v1/reclaims", json={**body, "bytes": 1})
    script.ask("POST", "/v1/reclaims", json={**body, "domain": WEB.replace("1", "f")})
    script.ask("GET", "/v1/reclaims")
    script.ask("GET", f"/v1/reclaims/{one}")
    script.ask("DELETE", f"/v1/reclaims/{one}")
    script.ask("DELETE", "/v1/reclaims/none")
    script.kept("reclaims")


def test_what_happened(script: Script) -> None:
    script.ask("GET", "/v1/refusals")
    script.ask("GET", f"/v1/refusals?host={FULL_HOST}", "own")
    script.ask("GET", "/v1/events?limit=3")
    script.ask("GET", f"/v1/history?since={MOMENT - 3600}&step=600")
    script.ask("GET", "/v1/promises")
    script.kept("events")


def test_the_service(script: Script) -> None:
    script.ask("GET", "/", None)
    script.ask("GET", "/", None, headers={"Accept": "text/html"})
    script.ask("GET", "/healthz", None)
    script.ask("GET", "/v2/hosts")
    script.ask("PATCH", "/v1/hosts")
    script.ask("GET", "/v1/hosts", headers={microversion.HEADER: f"{microversion.SERVICE} 9.9"})
    script.kept("service")


def test_metrics(site: Site) -> None:
    """Those of hosts and VMs; which version it is, what the process costs and how often it answered is of this run."""
    lines = [
        line
        for line in site.get("/metrics").text.splitlines()
        if not re.search(r"\b(python|process|memhint_api|memhint_build)_", line)
    ]
    golden.check(KEPT / "metrics.txt", "\n".join(lines) + "\n")


def test_the_description(site: Site) -> None:
    document = site.get("/openapi.json").get_json()
    document["info"]["version"] = "1.0"
    lines = [f"{key}: {_line(document[key])}" for key in document if key not in ("paths", "components")]
    for path, operations in document["paths"].items():
        lines += [f"{method} {path}: {_line(one)}" for method, one in operations.items()]
    for kind, parts in document["components"].items():
        lines += [f"{kind} {name}: {_line(one)}" for name, one in parts.items()]
    golden.check(KEPT / "openapi.txt", "\n".join(lines) + "\n")


def _line(part: object) -> str:
    return json.dumps(part, ensure_ascii=False)


def test_no_operation_is_missing() -> None:
    asked = "\n".join(path.read_text() for path in KEPT.glob("*.txt"))
    lines = set(re.findall(r"^>>> (\S+) ([^?\s]+)", asked, re.MULTILINE)) | {
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
    }
    elsewhere = {"/v1/stream", "/dashboard/", "/dashboard/<path:file>"}  # never ends; files
    missing = [
        one.path
        for one in ROUTES
        if one.path not in elsewhere
        and not any(
            one.method == method and re.fullmatch(re.sub(r"<\w+>", "[^/]+", one.path), path) for method, path in lines
        )
    ]
    assert not missing
