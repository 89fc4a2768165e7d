"""etc/grafana/memhint.json against the rules of its format, as far as they can be told without Grafana."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "etc" / "grafana" / "memhint.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
SHOWN = [one for one in PANELS if one["type"] != "row"]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24


def test_it_can_be_imported_anywhere() -> None:
    assert DASHBOARD["id"] is None  # Grafana gives one
    assert DASHBOARD["uid"] == "memhint"
    assert DASHBOARD["title"]
    assert 36 <= DASHBOARD["schemaVersion"] <= 41
    assert DASHBOARD["time"] == {"from": "now-6h", "to": "now"}


def test_the_data_source_and_the_hosts_are_chosen_by_whoever_looks() -> None:
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "host"]  # the second one asks the first
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert variables["host"]["datasource"] == DATASOURCE
    assert variables["host"]["includeAll"]
    assert variables["host"]["multi"]


def test_every_panel_has_its_own_id_and_title() -> None:
    assert sorted(one["id"] for one in PANELS) == list(range(1, len(PANELS) + 1))
    titles = [(one["type"], one["title"]) for one in PANELS]
    assert len(set(titles)) == len(titles)
    assert all(title for _, title in titles)
    assert {one["type"] for one in PANELS} == {"row", "stat", "table", "timeseries"}


def test_panels_are_within_the_grid_and_none_covers_another() -> None:
    for one in PANELS:
        place = one["gridPos"]
        assert place["x"] >= 0
        assert place["y"] >= 0
        assert place["w"] > 0
        assert place["h"] > 0
        assert place["x"] + place["w"] <= COLUMNS, one["title"]
    for first, second in combinations(PANELS, 2):
        assert not overlap(first["gridPos"], second["gridPos"]), (first["title"], second["title"])


def test_the_overlap_of_two_panels_would_be_noticed() -> None:
    assert overlap({"x": 0, "y": 0, "w": 12, "h": 4}, {"x": 11, "y": 3, "w": 2, "h": 2})
    assert not overlap({"x": 0, "y": 0, "w": 12, "h": 4}, {"x": 12, "y": 0, "w": 12, "h": 4})


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


@pytest.mark.parametrize("panel", SHOWN, ids=lambda panel: f"{panel['id']}-{panel['title']}")
def test_every_panel_asks_the_chosen_data_source(panel: dict[str, Any]) -> None:
    assert panel["datasource"] == DATASOURCE
    assert panel["targets"]
    assert [one["refId"] for one in panel["targets"]] == [chr(65 + n) for n in range(len(panel["targets"]))]
    assert "unit" in panel["fieldConfig"]["defaults"] or panel["type"] == "table"
    for target in panel["targets"]:
        assert target["datasource"] == DATASOURCE
        assert target["expr"].strip()
        assert set(re.findall(r"\$(\w+)", target["expr"])) <= {"host", "__rate_interval"}
        assert target["expr"].count("(") == target["expr"].count(")")


def test_every_metric_that_is_asked_for_is_documented() -> None:
    page = (ROOT / "doc" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `(memhint_\w+)` \|", page, re.MULTILINE))
    asked = {
        name for one in SHOWN for target in one["targets"] for name in re.findall(r"\bmemhint_\w+", target["expr"])
    }
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked} <= documented
