"""An API over a small synthetic fleet, asked in-process."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
from werkzeug.test import Client, TestResponse

from lab.fleet.fill import fill
from lab.fleet.fleet import Fleet, Shape
from memhint.api.app import build, fronted
from memhint.api.tokens import create
from memhint.conf import load
from memhint.controller.dispatch import dispatch_of
from memhint.store import open_store

HOSTS, VMS = 6, 4
# Long enough that nothing grows stale while tests run.
FLEET = Fleet(Shape(HOSTS, VMS, period=600.0))
OWN, OTHER = "violet", "green"
PEOPLE: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "admin": (("admin",), None),
    "service": (("service",), None),
    "reader": (("reader",), None),
    "own": (("reader",), OWN),
    "other": (("reader",), OTHER),
}


def fill_template(url: str) -> None:
    """A store with the fleet in it; whoever closes it last leaves no journal beside the file."""
    store = open_store(url)
    fill(store, FLEET, time.time(), past=3600.0)
    store.close()


class Site:
    """One application with its configuration."""

    def __init__(
        self, url: str, place: Path, options: Mapping[str, str], clock: Callable[[], float] = time.time
    ) -> None:
        self.tokens: dict[str, str] = {}
        self.token_file = place / "tokens"
        lines = []
        for name, (roles, project) in PEOPLE.items():
            self.tokens[name], entry = create(name, roles, project)
            lines.append(entry.line())
        self.token_file.write_text("\n".join(lines) + "\n")
        self.token_file.chmod(0o600)
        said = {"token_file": str(self.token_file), "rate": "0", **options}
        api = "".join(f"{name} = {value}\n" for name, value in said.items() if "." not in name)
        sections = "".join(
            "[{}]\n{} = {}\n".format(*name.split("."), value) for name, value in said.items() if "." in name
        )
        conf_file = place / "memhint.conf"
        conf_file.write_text(f"[store]\nurl = {url}\n[api]\n{api}{sections}")
        self.conf = load([conf_file])
        self.store = open_store(self.conf.store.url)
        self.application = build(self.conf, self.store, dispatch_of(self.conf, self.store), clock)
        self.client = Client(fronted(self.application, self.conf))

    def ask(self, method: str, path: str, who: str | None = "admin", **more: Any) -> TestResponse:
        """Ask as one of PEOPLE, or as nobody."""
        headers = {**more.pop("headers", {}), **({"X-Auth-Token": self.tokens[who]} if who else {})}
        more.setdefault("environ_overrides", {"REMOTE_ADDR": "127.0.0.1"})
        answer = self.client.open(path, method=method, headers=headers, **more)
        self._conforms(method, path, answer)
        return answer

    def _conforms(self, method: str, path: str, answer: TestResponse) -> None:
        """Whatever a test asks: the answer is one that the description knows."""
        document = self.application.parts.description
        plain, method = path.partition("?")[0], method.replace("HEAD", "GET")
        found = [
            operations[method.lower()]
            for template, operations in document["paths"].items()
            if method.lower() in operations and re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template)), plain)
        ]
        if not found:
            assert answer.status_code in (308, 401, 403, 404, 405, 429)
            return
        response = found[0]["responses"][str(answer.status_code)]
        if answer.mimetype == "application/json" and answer.data:
            ((_, content),) = response["content"].items()
            schema = {"components": document["components"], **content["schema"]}
            jsonschema.Draft202012Validator(schema).validate(answer.get_json())

    def get(self, path: str, who: str | None = "admin", **more: Any) -> TestResponse:
        """Get something."""
        return self.ask("GET", path, who, **more)

    def domain(self, project: str | None = None) -> str:
        """The UUID of some VM of a project."""
        suffix = f"&project={project}" if project else ""
        found: str = self.get(f"/v1/domains?limit=1{suffix}").get_json()["domains"][0]["uuid"]
        return found

    def close(self) -> None:
        """End it."""
        self.application.close()
        self.store.close()
