from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server

from lab.fleet.fleet import refusals
from lab.servers.directory import wait_until
from memhint.api.app import build
from memhint.conf import load
from memhint.controller.dispatch import dispatch_of
from memhint.objects.ownership import HOST
from memhint.objects.promise import PromisedHour
from memhint.objects.units import GIB
from memhint.store import open_store
from memhint.store.fleet import State
from memhint.store.log import LEVER, REFUSED, Log, LogFilter
from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import PERIOD, Api, Filled

# What the list of VMs asks for. The fleet's view, from which it is gone to, asks for the first few VMs at any time.
LIST = "**/v1/domains?*limit=100*"


def test_the_map_is_filtered_by_what_is_in_the_address(page: Page, api: Api, store: Filled) -> None:
    pressed = [
        store.fleet.name(host) for host in range(200) if store.fleet.pressed(host) and not store.fleet.stale(host)
    ]
    page.goto(f"{api.dashboard}#/fleet?state=pressed")
    expect(page.locator(".map a")).to_have_count(len(pressed))
    for cell in page.locator(".map a").all():
        assert "▲" in (cell.text_content() or "")
    page.get_by_label("State").select_option("silent")
    expect(page.locator(".map a").first).to_have_text("×")
    expect(page).to_have_url(re.compile("state=silent"))


def test_a_host_shows_its_vms_its_terms_its_ladder_and_its_levers(page: Page, api: Api, store: Filled) -> None:
    pressed = next(host for host in range(200) if store.fleet.pressed(host) and not store.fleet.stale(host))
    name = store.fleet.name(pressed)
    page.goto(f"{api.dashboard}#/hosts/{name}")
    rows = page.get_by_role("table", name=f"VMs of {name}").locator("tbody tr")
    expect(rows).to_have_count(20)
    expect(rows.first.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(r"assigned: resident .*unreported")
    )
    expect(page.get_by_role("table", name="Terms of the headroom").get_by_role("row", name="spare")).to_be_visible()
    expect(page.locator(".ladder .entered").first).to_contain_text("admission")
    expect(page.get_by_role("table", name=f"Levers of {name}").locator("tbody tr").first).to_be_visible()
    expect(page.get_by_role("group", name="History").locator("canvas")).to_be_visible()


def test_a_host_whose_report_is_old_promises_in_its_terms_what_it_promises_above(
    page: Page, api: Api, store: Filled
) -> None:
    stale = next(host for host in range(200) if store.fleet.stale(host))
    page.goto(f"{api.dashboard}#/hosts/{store.fleet.name(stale)}")
    opened = open_store(store.url, create=False)
    line, report = opened.hosts_view.one(store.fleet.name(stale)), opened.reports.newest(store.fleet.name(stale))
    opened.close()
    assert line is not None
    assert report is not None
    assert line.headroom < report.plan.capacity.headroom  # or the test shows nothing
    row = page.get_by_role("table", name="Terms of the headroom").locator("tr.binding").last
    expect(row).to_contain_text("its report is old")
    expect(row.locator(".number")).to_have_text(f"{line.headroom / GIB:.2f}")


def test_terms_that_are_no_memory_are_not_shown_as_memory(page: Page, api: Api, store: Filled) -> None:
    host = next(host for host in range(200) if not store.fleet.stale(host))
    store.report(host, storm=10, max_ratio=1.5, blind=True)
    page.goto(f"{api.dashboard}#/hosts/{store.fleet.name(host)}")
    table = page.get_by_role("table", name="Terms of the headroom")
    for name, value in (("storm", "10 %"), ("max ratio", "1.5"), ("blind", "yes")):
        expect(table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))).to_contain_text(value)


def test_a_host_shows_in_how_many_hours_its_promise_held(page: Page, api: Api, store: Filled) -> None:
    name = store.fleet.name(3)
    opened = open_store(store.url, create=False)
    hours = [PromisedHour(1_700_000_000.0 + 3600 * number, GIB, 2 * GIB) for number in range(4999)]
    opened.promises.add(name, [*hours, PromisedHour(1_600_000_000.0, 3 * GIB, -GIB)], 0.0)
    opened.close()
    page.goto(f"{api.dashboard}#/hosts/{name}")
    expect(page.get_by_label("This host in figures")).to_contain_text("99.98 %")
    expect(page.get_by_label("This host in figures")).to_contain_text(re.compile(r"of 5.000 hours"))
    worst = page.get_by_role("region", name="Promised against came").get_by_role("listitem").first
    expect(worst).to_contain_text("broken")
    expect(worst).to_contain_text("3.0 GiB promised, 0 MiB came")


def test_the_fleet_shows_in_how_many_hours_promises_held(page: Page, api: Api, store: Filled) -> None:
    opened = open_store(store.url, create=False)
    begin = time.time() // 3600 * 3600 - 100 * 3600
    hours = [PromisedHour(begin + 3600 * number, GIB, GIB) for number in range(99)]
    opened.promises.add(store.fleet.name(5), [*hours, PromisedHour(begin - 3600, GIB, 0)], 0.0)
    opened.close()
    page.goto(f"{api.dashboard}#/")
    figure = page.get_by_label("The fleet in figures").locator(".figure", has_text="Promises held")
    expect(figure).to_contain_text("99.00 %")
    expect(figure).to_contain_text("of 100 hours in 7 days")
    expect(figure).to_have_class(re.compile("bad"))


def test_a_host_that_is_not_there_says_so(window: Window, api: Api) -> None:
    window.page.goto(f"{api.dashboard}#/hosts/nobody")
    expect(window.page.get_by_role("alert")).to_contain_text("no agent of this name")
    expect(window.page.get_by_role("alert")).to_contain_text("Go back to the list")
    window.complaints.clear()


def test_the_plan_says_who_refuses_and_why(page: Page, api: Api) -> None:
    page.goto(f"{api.dashboard}#/plan?count=20&gib=4")
    expect(page.get_by_label("The plan in figures")).to_contain_text("20 of 20")
    table = page.get_by_role("table", name="Hosts of the plan")
    table.get_by_role("button", name="Refuses").click()
    first = table.locator("tbody tr").first
    expect(first).to_contain_text("headroom")
    expect(first.locator("td").last).not_to_be_empty()


def test_refusals_are_narrowed_to_one_reason(page: Page, api: Api) -> None:
    page.goto(f"{api.dashboard}#/refusals")
    rows = page.get_by_role("table", name="Refusals").locator("tbody tr")
    expect(rows.first).to_be_visible()
    page.get_by_role("button", name=re.compile(r"^consent \d")).click()
    for row in rows.all()[:10]:
        expect(row).to_contain_text("consent")
    expect(page).to_have_url(re.compile("reason=consent"))


def test_refusals_that_are_not_all_are_not_called_so(page: Page, api: Api, store: Filled) -> None:
    opened = open_store(store.url, create=False)
    of_levers = LogFilter(kind=LEVER, answers=REFUSED)
    assert len(Log(opened.database).page(of_levers, 501, None).items) == 501  # or the test shows nothing
    opened.close()
    page.goto(f"{api.dashboard}#/refusals")
    chips = page.get_by_role("group", name="Only this reason").get_by_role("button")
    expect(chips.first).to_have_text("newest 500")
    expect(page.get_by_role("table", name="Refusals").get_by_role("columnheader").first).to_contain_text("When")
    expect(page.get_by_text("Older ones are not shown")).to_be_visible()
    some = page.evaluate("fetch('../v1/refusals?limit=5').then((answer) => answer.json())")["refusals"]
    page.route("**/v1/refusals?*", lambda one: one.fulfill(json={"refusals": some}))
    page.reload()
    expect(chips.first).to_have_text("all 5")
    expect(page.get_by_text("Older ones are not shown")).to_have_count(0)
    page.unroute("**/v1/refusals?*")


def test_a_log_without_refusals_is_not_called_a_fleet_without_them(page: Page, api: Api, store: Filled) -> None:
    page.route("**/v1/refusals?*", lambda one: one.fulfill(json={"refusals": []}))
    page.goto(f"{api.dashboard}#/refusals")
    expect(page.get_by_text("The log of events has no refusal.")).to_be_visible()
    expect(page.get_by_text("What stands now is on the page of each host and VM")).to_be_visible()
    refused = next(one for one in refusals(store.fleet.report(3, time.time())) if one.subject != HOST)
    page.goto(f"{api.dashboard}#/vms/{refused.subject}")
    expect(page.get_by_role("table", name="Levers of this VM")).to_contain_text(refused.verdict.reason)
    page.unroute("**/v1/refusals?*")


def test_events_are_narrowed_by_kind(page: Page, api: Api) -> None:
    page.goto(f"{api.dashboard}#/events?kind=silent")
    rows = page.get_by_role("table", name="Events").locator("tbody tr")
    expect(rows.first).to_contain_text("silent")
    for row in rows.all():
        expect(row).to_contain_text("silent")


def test_vms_are_searched_by_name_and_host(page: Page, api: Api) -> None:
    page.goto(f"{api.dashboard}#/vms?host=compute-0005")
    rows = page.get_by_role("table", name="VMs").locator("tbody tr")
    expect(rows).to_have_count(20)
    page.get_by_label("Name").fill("web")
    expect(rows.filter(has_not_text="web")).to_have_count(0)
    expect(rows.filter(has_text="compute-0005").first).to_be_visible()


def come(page: Page, asked: list[Route], number: int = 1, words: str = "") -> Route:
    """The first of the questions with these words, once so many of them are there. There may be more at any time."""

    def found() -> list[Route]:
        page.evaluate("1")  # routes are told of in calls
        return [one for one in asked if words in one.request.url]

    wait_until(lambda: len(found()) >= number, f"the VMs to be asked for {number} times {words}")
    return found()[0]


def test_vms_of_a_slow_api_are_shown_though_they_were_asked_for_again(page: Page, api: Api, store: Filled) -> None:
    asked: list[Route] = []
    page.route(LIST, lambda one: asked.append(one))
    page.goto(f"{api.dashboard}#/vms")
    come(page, asked)
    expect(page.locator("#live")).to_have_text("live")
    store.report(3)
    come(page, asked, 2).continue_()
    rows = page.get_by_role("table", name="VMs").locator("tbody tr")
    expect(rows).to_have_count(100, timeout=20_000)
    page.unroute(LIST)


def test_vms_of_another_filter_are_not_shown(page: Page, api: Api, window: Window) -> None:
    asked: list[Route] = []
    page.route(LIST, lambda one: asked.append(one))
    page.goto(f"{api.dashboard}#/vms")
    every = come(page, asked)
    page.get_by_label("State").select_option("running")
    running = come(page, asked, words="state=running")
    page.get_by_label("Name").fill("web")
    named = come(page, asked, words="name=web")
    with page.expect_response(LIST):
        every.continue_()
    with page.expect_response(LIST):
        running.fulfill(status=503, json={"errors": [{"title": "of another filter"}]})
    rows = page.get_by_role("table", name="VMs").locator("tbody tr")
    expect(rows.filter(has_text="compute-")).to_have_count(0)
    named.continue_()
    expect(rows.filter(has_text="compute-").first).to_be_visible()
    expect(rows.filter(has_not_text="web")).to_have_count(0)
    expect(page.get_by_text("of another filter")).to_have_count(0)
    page.unroute(LIST)
    window.complaints.clear()  # Chromium tells the console of the one that failed


def test_a_vm_that_two_hosts_claim_has_a_row_of_each(page: Page, api: Api, store: Filled) -> None:
    fleet, now = store.fleet, time.time()
    victim = fleet.report(3, now).domains[0]
    other = fleet.report(4, now)
    opened = open_store(store.url, create=False)
    claim = replace(other, sequence=store.newer(now), domains=(*other.domains, victim))
    opened.fleet.take([State(claim, fleet.clock(now) + PERIOD)])
    opened.close()
    page.goto(f"{api.dashboard}#/vms?name={victim.observation.name}&sort=host:asc")
    rows = page.get_by_role("table", name="VMs").locator("tbody tr").filter(has_text=victim.observation.name)
    expect(rows.filter(has_text=fleet.name(3))).to_have_count(1)
    expect(rows.filter(has_text=fleet.name(4))).to_have_count(1)


def test_more_vms_than_a_page_are_fetched_when_asked(page: Page, api: Api) -> None:
    page.goto(f"{api.dashboard}#/vms")
    rows = page.get_by_role("table", name="VMs").locator("tbody tr")
    expect(rows).to_have_count(100)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(200)


def test_more_vms_are_fetched_from_an_api_that_is_mounted_below_a_path(
    store: Filled, tmp_path: Path, open_window: Callable[..., Window]
) -> None:
    file = tmp_path / "memhint.conf"
    file.write_text(f"[store]\nurl = {store.url}\n[api]\nrate = 0\nauth = none\n")
    conf = load([file])
    opened = open_store(store.url, create=False)
    built = build(conf, opened, dispatch_of(conf, opened))
    server = make_server("127.0.0.1", 0, DispatcherMiddleware(NotFound(), {"/x": built}), threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    window = open_window()
    try:
        window.page.goto(f"http://127.0.0.1:{server.port}/x/dashboard/#/vms")
        rows = window.page.get_by_role("table", name="VMs").locator("tbody tr")
        expect(rows).to_have_count(100)
        window.page.get_by_role("button", name="Show more").click()
        expect(rows).to_have_count(200)
        window.page.goto("about:blank")
    finally:
        built.close()  # ends the stream
        server.shutdown()
        thread.join()
        server.server_close()
        opened.close()


@pytest.mark.parametrize("wrong", [7200, -7200], ids=["ahead", "behind"])
def test_a_browser_whose_clock_is_wrong_shows_the_newest_hour(page: Page, api: Api, store: Filled, wrong: int) -> None:
    page.clock.set_fixed_time(time.time() + wrong)
    page.goto(f"{api.dashboard}#/hosts/{store.fleet.name(5)}")
    page.reload()
    expect(page.locator(".states time")).to_have_text(re.compile(r"^\d+ (s|min) ago$"))
    history = page.get_by_role("region", name="History", exact=True)
    history.get_by_text("As a table").click()
    expect(history.get_by_role("rowheader").first).to_be_visible()


def test_back_goes_back(page: Page, api: Api) -> None:
    page.goto(f"{api.dashboard}#/fleet?sort=unreported")
    page.locator("[data-host=compute-0000]").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("compute-0000")
    page.go_back()
    expect(page.get_by_label("Sort")).to_have_value("unreported")
