"""doc/metrics.md holds every metric there is, and each is named as Prometheus's conventions have it."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest

from memhint.controller.intake import Intake
from memhint.objects.promise import PromisedHour
from tests.unit.api.conftest import make_site, template  # noqa: F401  fixtures
from tests.unit.api.site import Site
from tests.unit.controller.test_intake import FakeFleet, intake
from tests.unit.metrics.families import Family, agent_registry, controller_registry, families_of

PAGE = Path(__file__).parents[3] / "doc" / "metrics.md"
NOT_BASE = re.compile(r"_(percent|ms|millis|milliseconds|minutes|hours|kib|mib|gib|kb|mb|gb|pages)(_|$)")
LABELS = {
    *("host", "lever", "rung", "state"),
    *("uuid", "name", "project"),  # of at most so many VMs
    *("method", "route", "status"),
    *("part", "version", "reason", "answer", "subscriber", "outcome", "kind", "queue", "event", "age"),
}


def controller() -> Intake:
    return intake(FakeFleet(), [0.0])


@pytest.fixture
def families(make_site: Callable[..., Site], tmp_path: Path) -> dict[str, list[Family]]:  # noqa: F811
    site = make_site()
    with closing(sqlite3.connect(tmp_path / "site-0" / "memhint.db")) as store, store:
        store.execute("UPDATE host_summary SET rungs = 'admission'")
    site.get("/v1/hosts")
    site.store.promises.add("compute-0001", [PromisedHour(time.time(), 1, 1)], 0.0)
    api = site.get("/metrics").get_data(as_text=True)
    return {
        "The API": families_of(api),
        "An agent": families_of(generate_latest(agent_registry()).decode()),
        "A controller": families_of(generate_latest(controller_registry(controller())).decode()),
    }


def test_every_metric_has_its_row_and_no_row_is_left_over(families: dict[str, list[Family]]) -> None:
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    for part, found in families.items():
        rows = [one.row() for one in found]
        written = [line for line in sections[part].splitlines() if line.startswith("| `memhint_")]
        assert written == rows, f"the rows of {part} should be:\n" + "\n".join(rows)


def test_every_name_follows_the_conventions(families: dict[str, list[Family]]) -> None:
    for one in (each for found in families.values() for each in found):
        assert re.fullmatch(r"memhint_[a-z][a-z0-9_]*", one.name), one
        assert not NOT_BASE.search(one.name), one
        assert (one.kind == "counter") == one.name.endswith("_total"), one
        if one.kind == "histogram":
            assert one.name.endswith("_seconds"), one
        assert not re.search(r"(bytes|seconds)_(?!total$)", one.name), one  # the unit comes last
        assert set(one.labels) <= LABELS, one
        assert one.text, one
        assert not one.text.endswith("."), one
