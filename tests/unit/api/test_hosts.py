from __future__ import annotations

import pytest

from memhint.api.handlers.history import thinned
from memhint.objects.history import HistoryPoint
from memhint.objects.promise import PromisedHour
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
