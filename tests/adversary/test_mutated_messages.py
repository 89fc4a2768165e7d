"""A hostile host sends whatever it likes for a report: it is refused, or kept and shown; nothing else fails."""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memhint.bus.envelope import Envelope, decode
from memhint.bus.errors import Poison
from memhint.controller.intake import Intake
from memhint.controller.reconcile import Reconciler
from tests.unit.api.site import Site, fill_template

MESSAGES = Path(__file__).parents[1] / "unit" / "bus" / "messages"
RECORDED = {name: json.loads((MESSAGES / f"{name}.json").read_text()) for name in ("0.1-state", "0.1-record")}
SECONDS = float(os.environ.get("MEMHINT_DRILL_SECONDS", "10"))
ODD: list[Any] = [
    *(None, True, "", "unknown", "new word", "\0", "<b>", "\ud7ff" * 300, [], {}, [[]], {"a": {}}),
    *(0, -1, 1, 2**31, 2**47, 2**47 + 1, 2**53, 2**63 - 1, -(2**63), 0.0, -0.5, 1e-300, 1e15, 1e300, "0", "auto"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("mutated")
    url = f"sqlite:///{place}/memhint.db"
    fill_template(url)
    found = Site(url, place, {})
    yield found
    found.close()


def places(plain: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a document."""
    yield here
    members = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for name, value in members:
        yield from places(value, (*here, name))


def mutated(draw: st.DataObject, plain: dict[str, Any]) -> dict[str, Any]:
    """The document with a few of its values replaced, left out, added to or doubled."""
    made = copy.deepcopy(plain)
    for _ in range(draw.draw(st.integers(1, 3))):
        *way, last = draw.draw(st.sampled_from([one for one in places(made["body"]) if one]))
        holder = made["body"]
        for name in way:
            holder = holder[name]
        what = draw.draw(st.sampled_from(["replace", "replace", "remove", "double"]))
        if what == "replace":
            holder[last] = copy.deepcopy(draw.draw(st.sampled_from(ODD) | st.integers() | st.floats() | st.text()))
        elif what == "remove":
            del holder[last]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[last]))
        else:
            holder[f"new_{last}"] = holder[last]
    return made


def read_everything(site: Site, told: list[Envelope]) -> None:
    """Whatever shows a report, as people and machines ask for it."""
    host = "host-a"
    ways = [
        *("/v1/hosts", f"/v1/hosts/{host}", "/v1/history", "/v1/refusals", f"/v1/hosts/{host}/history"),
        *("/v1/domains", "/v1/events", "/v1/reclaims", "/metrics"),
    ]
    for one in told:
        report = one.body
        if hasattr(report, "domains"):
            ways += [f"/v1/domains/{quote(vm.observation.uuid, safe='')}" for vm in report.domains]
    for way in ways:
        answer = site.get(way)
        assert answer.status_code < 500, (way, answer.get_data(as_text=True))


@pytest.mark.parametrize("name", RECORDED)
def test_a_hostile_host_mutates_its_messages_arbitrarily(name: str, site: Site) -> None:
    store = site.store
    reconciler = Reconciler(store, lambda _: None, 0.0)
    intake = Intake(store, 1e9, reconciler.look)
    unmutated = RECORDED[name]
    number = {"last": 1}
    kept = {"yes": 0, "no": 0}
    end = time.monotonic() + SECONDS / 2

    @given(draw=st.data())
    @settings(max_examples=40, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    def send(draw: st.DataObject) -> None:
        plain = mutated(draw, unmutated)
        number["last"] += 1
        plain["sequence"] = number["last"]
        if plain.get("kind") == "state" and isinstance(plain["body"].get("sequence"), int):
            plain["body"]["sequence"] = number["last"]
        try:
            told = decode(json.dumps(plain).encode(errors="surrogatepass"), None)
        except Poison:
            kept["no"] += 1
            return
        (refused,) = intake.take([told])
        assert refused is None or "failed" not in refused, refused  # whatever is refused, is refused for what it is
        kept["yes" if refused is None else "no"] += 1
        read_everything(site, [told])

    while True:
        send()
        if time.monotonic() > end or settings.default.derandomize:  # they would be the same once more
            break
    assert kept["yes"], "nothing got as far as the store"
    assert kept["no"], "nothing was refused"
    assert intake.take(
        [
            decode(
                json.dumps(
                    {**unmutated, "sequence": 2**52}
                    | ({"body": {**unmutated["body"], "sequence": 2**52}} if name == "0.1-state" else {})
                ).encode(),
                None,
            )
        ]
    ) == [None]
