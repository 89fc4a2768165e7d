from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memhint.api.metrics.figures import Figures, FleetFigures
from memhint.objects.summary import HostSummary
from memhint.store.errors import StoreError
from memhint.store.hosts_view import HostsView
from tests.clock import Clock
from tests.unit.api.site import HOSTS, VMS, Site
from tests.unit.metrics.families import value, values


def shown(site: Site) -> str:
    answer = site.get("/metrics")
    assert answer.status_code == 200
    assert answer.mimetype == "text/plain"
    return answer.get_data(as_text=True)


def test_each_host_has_what_its_line_in_the_list_says(site: Site) -> None:
    text = shown(site)
    for one in site.get("/v1/hosts").get_json()["hosts"]:
        for name in ("headroom", "pool", "assigned", "footprint", "resident", "available", "swap_used", "unreported"):
            found = [
                number for labels, number in values(text, f"memhint_host_{name}_bytes") if labels["host"] == one["name"]
            ]
            assert found == ([] if one[name] is None else [one[name]]), name
        assert value(text, "memhint_host_pressure_ratio", host=one["name"]) == pytest.approx(one["psi"] / 100)
        assert value(text, "memhint_host_nominal_slots", host=one["name"]) == one["nominal_slots"]
        assert value(text, "memhint_host_stale", host=one["name"]) == (one["state"] != "fresh")
        rungs = {labels["rung"] for labels, _ in values(text, "memhint_host_rung") if labels["host"] == one["name"]}
        assert rungs == set(one["rungs"])
    assert sum(number for _, number in values(text, "memhint_hosts")) == HOSTS


def test_a_host_that_is_stale_admits_nobody_whatever_it_said_last(site: Site) -> None:
    from memhint.api.metrics.hosts import Hosts

    line: HostSummary = site.store.hosts_view.all()[0]
    old = line.as_of(True, line.heard, 3)
    assert line.admitting
    found = {one.name: one.samples[0].value for one in Hosts([old]).collect() if one.samples}
    assert (found["memhint_host_admitting"], found["memhint_host_stale"], found["memhint_host_silent"]) == (0, 1, 1)


@pytest.mark.parametrize("most", [0, 1, 3, 1000])
def test_only_so_many_vms_have_series_and_the_rest_is_counted(make_site: Callable[..., Site], most: int) -> None:
    site = make_site(**{"metrics.domains": str(most)})
    text = shown(site)
    expected = min(most, HOSTS * VMS)
    assert len(list(values(text, "memhint_domain_assigned_bytes"))) == expected
    assert value(text, "memhint_domains_shown") == expected
    assert value(text, "memhint_domains_left_out") == HOSTS * VMS - expected


def test_the_vms_with_series_are_those_that_hold_the_most(make_site: Callable[..., Site]) -> None:
    site = make_site(**{"metrics.domains": "4"})
    wanted = set()
    for key in ("unreported", "footprint"):
        wanted |= {one["uuid"] for one in site.get(f"/v1/domains?sort={key}:desc&limit=2").get_json()["domains"]}
    named = {labels["uuid"] for labels, _ in values(shown(site), "memhint_domain_assigned_bytes")}
    assert wanted <= named


def test_requests_are_counted_by_route_and_status_and_never_by_what_a_caller_wrote(site: Site) -> None:
    uuid = site.domain()
    site.get(f"/v1/domains/{uuid}")
    site.get("/v1/domains/6f1d3c2a-0000-4000-8000-00000000dead")
    site.get("/v1/hosts", None)
    for number in range(20):
        site.get(f"/nowhere/{number}")
        site.ask(f"ODD{number}", "/v1/hosts")
    text = shown(site)
    name = "memhint_api_requests_total"
    assert value(text, name, method="GET", route="/v1/domains/<uuid>", status="200") == 1
    assert value(text, name, method="GET", route="/v1/domains/<uuid>", status="404") == 1
    assert value(text, name, route="/v1/hosts", status="401") == 1
    assert value(text, name, method="GET", route="unmatched", status="404") == 20
    assert value(text, name, method="other", route="unmatched", status="405") == 20
    assert uuid not in re.sub(r"memhint_domain_.*", "", text)
    assert value(text, "memhint_api_request_duration_seconds_count", route="/v1/domains/<uuid>") == 2


@pytest.fixture
def clock() -> Clock:
    return Clock(time.time())


def counted_looks(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What of the store /metrics asks, as it is asked."""
    looks: list[str] = []
    for kind, name in (("hosts_view", "all"), ("promises", "since"), ("domains", "page")):
        asked = getattr(type(getattr(site.store, kind)), name)

        def look(*words: object, _asked: Callable[..., Any] = asked, _kind: str = kind, **more: object) -> object:
            looks.append(_kind)
            return _asked(*words, **more)

        monkeypatch.setattr(type(getattr(site.store, kind)), name, look)
    return looks


def test_scrapes_at_any_rate_cost_one_look_per_interval_and_say_how_old_it_is(
    make_site: Callable[..., Site], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(clock=clock, **{"metrics.fleet_every": "10"})
    looks = counted_looks(site, monkeypatch)
    each = ["hosts_view", "promises", "domains", "domains"]  # once by each of two keys
    for _ in range(20):
        shown(site)
        clock.now += 0.4
    assert looks == each
    assert value(shown(site), "memhint_api_fleet_age_seconds") == pytest.approx(8.0)
    clock.now += 3.0
    text = shown(site)
    assert looks == 2 * each
    assert value(text, "memhint_api_fleet_age_seconds") == 0
    clock.now -= 3600.0  # somebody sets it
    assert value(shown(site), "memhint_api_fleet_age_seconds") == 0
    assert looks == 3 * each


def test_each_scrape_looks_where_that_is_wished(
    make_site: Callable[..., Site], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(clock=clock, **{"metrics.fleet_every": "0"})
    looks = counted_looks(site, monkeypatch)
    shown(site)
    shown(site)
    assert looks.count("hosts_view") == 2


def test_scrapes_at_the_same_time_cost_one_look_and_the_others_do_not_wait(
    site: Site, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = FleetFigures(site.store, 0, 10.0, clock, lambda error: None)
    first = figures.now()
    clock.now += 60.0
    asked, go_on = threading.Event(), threading.Event()
    real = type(site.store.hosts_view).all

    def slow(view: HostsView) -> tuple[HostSummary, ...]:
        asked.set()
        assert go_on.wait(30)
        return real(view)

    monkeypatch.setattr(type(site.store.hosts_view), "all", slow)
    found: list[Figures] = []
    one = threading.Thread(target=lambda: found.append(figures.now()))
    one.start()
    assert asked.wait(30)
    assert figures.now() is first
    go_on.set()
    one.join(30)
    assert figures.now() is found[0] is not first


def test_without_the_store_there_are_metrics_still_and_they_say_so(
    make_site: Callable[..., Site], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> Iterator[object]:
        raise StoreError("the database is away")

    site = make_site(clock=clock)
    before = shown(site)
    assert value(before, "memhint_api_store_up") == 1
    with monkeypatch.context() as without:
        without.setattr(type(site.store.hosts_view), "all", away)
        without.setattr(type(site.store.hosts_view), "token", away)
        assert site.get("/healthz").status_code == 503
        clock.now += 10.0
        for _ in range(3):  # a store that fails is asked no oftener
            text = shown(site)
            assert value(text, "memhint_api_store_up") == 0
            assert value(text, "memhint_api_store_errors_total") == 2
            assert not list(values(text, "memhint_host_pool_bytes"))
            assert not list(values(text, "memhint_api_fleet_age_seconds"))
    clock.now += 10.0
    assert value(shown(site), "memhint_api_store_up") == 1


def test_only_those_who_may_see_the_whole_fleet_read_metrics(site: Site) -> None:
    assert [site.get("/metrics", who).status_code for who in ("admin", "service", "reader", "own")] == [
        200,
        200,
        200,
        403,
    ]


def test_streams_are_counted_against_their_limit(make_site: Callable[..., Site]) -> None:
    site = make_site(streams="5")
    listener = site.application.parts.hub.join(None)
    text = shown(site)
    assert (value(text, "memhint_api_streams"), value(text, "memhint_api_streams_limit")) == (1, 5)
    site.application.parts.hub.leave(listener)
