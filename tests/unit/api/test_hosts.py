from __future__ import annotations

import json

import pytest

from memhint.api.handlers.history import thinned
from memhint.objects.codec import to_plain
from memhint.objects.history import HistoryPoint
from memhint.objects.promise import PromisedHour
from memhint.objects.tier_sizing import load_of
from memhint.objects.units import GIB
from memhint.planner.tier_sizing import sizing_of, tier_gain
from tests.unit import builders
from tests.unit.api.site import FLEET, HOSTS, Site


def test_a_host_has_its_line_and_every_term_of_its_capacity(site: Site) -> None:
    (line,) = (one for one in site.get("/v1/hosts").get_json()["hosts"] if one["name"] == FLEET.name(1))
    host = site.get(f"/v1/hosts/{FLEET.name(1)}").get_json()["host"]
    assert {name: host[name] for name in line if name != "gaps"} == {
        name: value for name, value in line.items() if name != "gaps"
    }
    assert host["capacity"]["headroom"] == host["headroom"]
    assert {"model", "now", "back"} <= set(host["capacity"])
    assert host["cost"]["rss"] > 0


def test_a_host_says_in_how_many_hours_its_promise_held(site: Site) -> None:
    path = f"/v1/hosts/{FLEET.name(2)}"
    assert site.get(path).get_json()["host"]["promise"] is None
    site.store.promises.add(FLEET.name(2), [PromisedHour(3600.0, 7, 9), PromisedHour(7200.0, 7, -1)], 0.0)
    assert site.get(path).get_json()["host"]["promise"] == {
        "hours": 2,
        "held": 1,
        "since": 3600.0,
        "worst": [{"at": 7200.0, "promised": 7, "came": -1}, {"at": 3600.0, "promised": 7, "came": 9}],
    }


def test_each_host_says_what_a_tier_would_give_by_the_rule_of_the_planner(site: Site) -> None:
    report = builders.report(host="measured")
    site.store.reports.save(report)
    capacity = report.plan.capacity
    load = load_of([one.observation for one in report.domains], capacity.pool - capacity.reserve)
    assert load is not None
    lines = {one["name"]: one for one in site.get("/v1/hosts").get_json()["hosts"]}
    assert lines["measured"]["load"] == to_plain(load)
    assert lines["measured"]["tier_gain"] == to_plain(tier_gain(load, load.dram))
    unmeasured = lines[FLEET.name(0)]
    assert (unmeasured["load"], unmeasured["tier_gain"]) == (None, None)
    size = 3 * GIB
    for path in (f"/v1/hosts?tier={size}&limit=1000", f"/v1/hosts?tier={size}&fields=name,tier_gain&sort=name:desc"):
        gains = {one["name"]: one["tier_gain"] for one in site.get(path).get_json()["hosts"]}
        assert gains["measured"] == to_plain(tier_gain(load, size))
        assert gains[FLEET.name(0)] is None
    host = site.get(f"/v1/hosts/measured?tier={size}").get_json()["host"]
    assert host["tier"] == json.loads(json.dumps(to_plain(sizing_of(load, size))))
    assert host["tier_gain"] == to_plain(tier_gain(load, size))
    assert [one["tier"] for one in site.get("/v1/hosts/measured").get_json()["host"]["tier"]["gains"]] == [
        load.dram // 4,
        load.dram // 2,
        load.dram,
    ]


@pytest.mark.parametrize("said", ["0", "-1", "512GiB", "1e9", str(2**63)])
def test_a_tier_is_a_number_of_bytes(site: Site, said: str) -> None:
    for path in ("/v1/hosts", f"/v1/hosts/{FLEET.name(0)}"):
        assert site.get(f"{path}?tier={said}").status_code == 400


def test_changes_are_told_of_without_a_tier(site: Site) -> None:
    changed = site.get("/v1/hosts").get_json()["changed"]
    assert site.get(f"/v1/hosts?changed_since={changed}&tier=1").status_code == 400


def test_a_host_over_time_is_thinned_to_its_worst(site: Site) -> None:
    path = f"/v1/hosts/{FLEET.name(1)}/history"
    points = site.get(path).get_json()["points"]
    assert [one["at"] for one in points] == sorted(one["at"] for one in points)
    coarse = site.get(f"{path}?step=3600").get_json()["points"]
    assert 0 < len(coarse) < len(points)
    assert min(one["headroom"] for one in coarse) == min(one["headroom"] for one in points)
    assert max(one["footprint"] for one in coarse) == max(one["footprint"] for one in points)
    some = points[len(points) // 2]["at"]
    assert site.get(f"{path}?since={some}").get_json()["points"][0]["at"] == some
    assert all(one["at"] < some for one in site.get(f"{path}?until={some}").get_json()["points"])


def test_the_fleet_over_time_is_the_sum_of_its_hosts(site: Site) -> None:
    each = [site.get(f"/v1/hosts/{FLEET.name(number)}/history").get_json()["points"] for number in range(HOSTS)]
    whole = site.get("/v1/history?step=86400&since=0").get_json()["points"]
    days = {int(one["at"] // 86400) for points in each for one in points}
    assert [one["at"] for one in whole] == [day * 86400.0 for day in sorted(days)]
    for point in whole:
        same = [[one for one in points if one["at"] // 86400 == point["at"] // 86400] for points in each]
        assert point["headroom"] == sum(min(one["headroom"] for one in points) for points in same if points)
        assert point["assigned"] == sum(max(one["assigned"] for one in points) for points in same if points)
        assert point["psi"] == max(one["psi"] for points in same for one in points)


def point(at: float, **changes: object) -> HistoryPoint:
    numbers = {"headroom": 5, "nominal_headroom": 5, "assigned": 5, "footprint": 5, "resident": 5, "available": 5}
    return HistoryPoint(at=at, **{**numbers, "swap_used": 0, "psi": None, **changes})  # type: ignore[arg-type]


def test_the_worst_is_the_least_of_what_is_left_and_the_most_of_what_is_used() -> None:
    points = [point(100.0, headroom=3, footprint=9), point(101.0, psi=1.0), point(160.0)]
    first, second = thinned(points, 60)
    assert (first.at, first.span, first.headroom, first.footprint, first.psi) == (60.0, 60, 3, 9, 1.0)
    assert (second.at, second.psi) == (120.0, None)
    assert thinned(points, None) is points


def test_metrics_have_the_hosts_and_no_series_for_what_is_unknown(site: Site) -> None:
    text = site.get("/metrics").text
    assert f'memhint_host_headroom_bytes{{host="{FLEET.name(1)}"}}' in text
    assert f'memhint_hosts{{state="fresh"}} {HOSTS}.0' in text
    assert "None" not in text
    hosts = site.get("/v1/hosts").get_json()["hosts"]
    for one in hosts:
        assert (f'memhint_host_unreported_bytes{{host="{one["name"]}"}}' in text) == (one["unreported"] is not None)


@pytest.mark.parametrize("who", ["admin", "service"])
def test_prometheus_may_show_its_token_as_bearer(site: Site, who: str) -> None:
    answer = site.get("/metrics", None, headers={"Authorization": f"Bearer {site.tokens[who]}"})
    assert answer.status_code == 200
