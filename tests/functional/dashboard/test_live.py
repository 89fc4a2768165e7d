from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from lab.servers.directory import wait_until
from memhint.objects.units import GIB
from memhint.store import open_store
from memhint.store.fleet import HostEventKind
from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Api, Filled


def test_a_report_is_seen_without_a_reload(window: Window, store: Filled) -> None:
    page = window.page
    expect(page.locator("#live")).to_have_text("live")
    cell = page.locator("[data-host=compute-0003]")
    expect(cell).to_be_visible()
    page.evaluate("window.same = true")
    store.report(3, headroom=77 * GIB)
    expect(cell).to_have_attribute("aria-label", re.compile("headroom 77.0 GiB"))
    assert page.evaluate("window.same")


def see(page: Page, seen: bool) -> None:
    """Let the page be looked at, or not: headless Chromium shows all of them."""
    page.evaluate(
        """(seen) => {
            const visibilityState = seen ? "visible" : "hidden";
            Object.defineProperty(document, "visibilityState", { configurable: true, get: () => visibilityState });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        seen,
    )


def test_a_page_that_is_not_seen_lets_its_stream_go_and_goes_on_where_it_was(window: Window, store: Filled) -> None:
    page = window.page
    live = page.locator("#live")
    cell = page.locator("[data-host=compute-0005]")
    store.report(5, headroom=11 * GIB)
    expect(cell).to_have_attribute("aria-label", re.compile("headroom 11.0 GiB"))
    expect(live).to_have_text("live")
    lists: list[str] = []
    page.on("request", lambda one: lists.append(one.url) if "/v1/hosts?" in one.url else None)
    with page.expect_event("requestfailed", lambda one: "/v1/stream" in one.url):
        see(page, False)
    expect(live).to_contain_text("paused since")
    store.report(5, headroom=22 * GIB)
    with page.expect_request("**/v1/stream") as again:
        see(page, True)
    expect(live).to_have_text("live")
    expect(cell).to_have_attribute("aria-label", re.compile("headroom 22.0 GiB"))
    assert again.value.headers["last-event-id"]
    assert lists == []


def test_tabs_that_are_not_seen_leave_the_browser_connections(window: Window, api: Api) -> None:
    pages = [window.page, *(window.page.context.new_page() for _ in range(6))]
    for page in pages:
        page.goto(f"{api.dashboard}#/plan")
        expect(page.locator("#live")).to_have_text("live")
        see(page, page is pages[-1])


def test_a_host_that_falls_silent_is_seen_without_a_reload(
    template: Filled, tmp_path_factory, open_window: Callable[..., Window]
) -> None:
    store = template.copy(tmp_path_factory.mktemp("own"))
    api = Api(store)
    api.start()
    try:
        fleet, host = open_window().page, open_window().page
        fleet.goto(api.dashboard)
        host.goto(f"{api.dashboard}#/hosts/compute-0003")
        expect(fleet.locator("#live")).to_have_text("live")
        expect(host.locator("#live")).to_have_text("live")
        late = fleet.get_by_label("The fleet in figures").locator(".figure", has_text="Hosts").first
        expect(late).to_contain_text(re.compile(r"\d+ late"))
        before = int(re.search(r"(\d+) late", late.text_content() or "")[1])  # type: ignore[index]
        for page in (fleet, host):
            page.evaluate("window.same = true")
        store.report(3, period=5.0, headroom=77 * GIB)
        expect(host.locator(".states")).to_contain_text("every 5 s")
        expect(host.locator(".states")).to_contain_text("admitting")
        cell = fleet.locator("[data-host=compute-0003]")
        expect(cell).to_have_text("~")  # nobody calls it silent: there is no controller
        expect(cell).not_to_have_attribute("aria-label", re.compile("headroom 77.0 GiB"))
        expect(late).to_contain_text(f"{before + 1} late")
        expect(host.locator(".states")).to_contain_text("stale")
        expect(host.locator(".states")).to_contain_text("admits no VM")
        for page in (fleet, host):
            assert page.evaluate("window.same")
    finally:
        api.stop()


def test_an_event_that_comes_before_the_list_does_stays(window: Window, store: Filled) -> None:
    page = window.page
    expect(page.locator("#live")).to_have_text("live")
    asked: list[Route] = []
    page.route("**/v1/events?*", lambda one: asked.append(one))
    page.goto(f"{page.url}#/events")
    wait_until(lambda: bool(page.evaluate("1")) and bool(asked), "the list to be asked for")  # it waits for the page
    answer = asked[0].fetch()  # of now: the event comes after it
    happen(store, "a word too many")
    table = page.get_by_role("table", name="Events")
    expect(table).to_contain_text("a word too many")
    asked[0].fulfill(response=answer)
    expect(table.locator("tbody tr").nth(1)).to_be_visible()
    expect(table).to_contain_text("a word too many")
    page.unroute("**/v1/events?*")


def happen(store: Filled, what: str, kind: HostEventKind = HostEventKind.LOST) -> None:
    """An event of a host."""
    database = open_store(store.url, create=False)
    database.fleet.tell(store.fleet.name(3), kind, what)
    database.close()


def test_events_are_read_again_where_they_can_no_longer_be_told(window: Window, api: Api, store: Filled) -> None:
    page = window.page
    expect(page.locator("#live")).to_have_text("live")
    asked: list[str | None] = []

    def away(one: Route) -> None:
        asked.append(one.request.headers.get("last-event-id"))
        if len(asked) == 1:
            one.fulfill(content_type="text/event-stream", body="id: 1-1-1-1\n\n")  # and it ends
        elif len(asked) == 2:
            happen(store, "in the night")
            one.fulfill(status=410, json={"errors": []})
        else:
            one.continue_()

    page.route("**/v1/stream", away)
    page.goto(f"{api.dashboard}#/events")
    page.reload()
    table = page.get_by_role("table", name="Events")
    expect(table).to_contain_text("in the night")
    expect(page.locator("#live")).to_have_text("live")
    assert asked[1] == "1-1-1-1"
    assert len(asked) == 3
    page.unroute("**/v1/stream")
    window.complaints.clear()  # Chromium tells the console of every 410


@pytest.mark.parametrize(
    ("status", "answer"), [(404, "default backend - 404"), (400, "<h1>Bad Request</h1>"), (404, '{"errors": []}')]
)
def test_what_stands_before_the_api_does_not_end_the_stream(window: Window, status: int, answer: str) -> None:
    page = window.page
    expect(page.locator("#live")).to_have_text("live")
    asked: list[Route] = []

    def another(one: Route) -> None:
        asked.append(one)
        if len(asked) < 3:
            one.fulfill(status=status, content_type="text/html", body=answer)
        else:
            one.continue_()

    page.route("**/v1/stream", another)
    page.reload()
    wait_until(lambda: bool(page.evaluate("1")) and len(asked) >= 3, "the stream to be asked for again")
    expect(page.locator("#live")).to_have_text("live")
    page.unroute("**/v1/stream")
    window.complaints.clear()  # Chromium tells the console of each of them


def test_a_page_in_place_of_the_stream_is_not_live(window: Window) -> None:
    page = window.page
    expect(page.locator("#live")).to_have_text("live")
    page.route("**/v1/stream", lambda one: one.fulfill(content_type="text/html", body="<p>Sign in</p>"))
    page.add_init_script("""
        window.states = [];
        addEventListener("DOMContentLoaded", () => {
            const live = document.getElementById("live");
            new MutationObserver(() => states.push(live.dataset.state)).observe(live, { attributes: true });
        });
    """)
    page.reload()
    # The pause grows, and none of the answers counted as the stream.
    page.wait_for_function("() => states.filter((one) => one === 'away').length >= 3")
    assert "live" not in page.evaluate("states")
    expect(page.locator("#live")).to_have_attribute("title", re.compile("between this browser and the API"))
    page.unroute("**/v1/stream")


def test_an_api_without_a_stream_is_not_asked_again(window: Window) -> None:
    page = window.page
    expect(page.locator("#live")).to_have_text("live")
    errors = {"errors": [{"status": 404, "code": "memhint.path.not_found", "title": "Not Found", "detail": "none"}]}
    page.route("**/v1/stream", lambda one: one.fulfill(status=404, json=errors))
    page.reload()
    expect(page.locator("#live")).to_have_text("not connected")
    page.unroute("**/v1/stream")
    window.complaints.clear()  # Chromium tells the console of it


def test_an_event_that_comes_leaves_no_hole_among_older_ones(window: Window, api: Api, store: Filled) -> None:
    page = window.page
    page.goto(f"{api.dashboard}#/events")
    rows = page.get_by_role("table", name="Events").locator("tbody tr")
    expect(page.locator("#live")).to_have_text("live")
    for number in range(200, 1200, 200):
        expect(rows).to_have_count(number)
        page.get_by_role("button", name="Show older").click()
    expect(rows).to_have_count(1200)
    happen(store, "one more")
    expect(rows.first).to_contain_text("one more")
    expect(rows).to_have_count(1201)


def test_older_events_of_another_filter_are_not_shown(window: Window, api: Api, store: Filled) -> None:
    page = window.page
    page.goto(f"{api.dashboard}#/events?kind=lever")
    rows = page.get_by_role("table", name="Events").locator("tbody tr")
    expect(rows).to_have_count(200)
    asked: list[Route] = []
    page.route("**/v1/events?*marker=*", lambda one: asked.append(one))
    page.get_by_role("button", name="Show older").click()
    wait_until(lambda: bool(page.evaluate("1")) and bool(asked), "older events to be asked for")
    page.get_by_label("Kind").select_option("silent")
    expect(rows.filter(has_text="lever")).to_have_count(0)
    with page.expect_response("**/v1/events?*marker=*"):
        asked[0].continue_()
    happen(store, "fell silent later", HostEventKind.SILENT)  # it comes after that answer
    expect(rows.first).to_contain_text("fell silent later")
    expect(rows.filter(has_text="lever")).to_have_count(0)
    page.unroute("**/v1/events?*marker=*")


def test_the_loss_of_the_api_shows_and_its_return_does(
    template: Filled, tmp_path_factory, open_window: Callable[..., Window]
) -> None:
    store = template.copy(tmp_path_factory.mktemp("own"))
    api = Api(store)
    api.start()
    try:
        window = open_window()
        page = window.page
        page.goto(api.dashboard)
        live = page.locator("#live")
        expect(live).to_have_text("live")
        expect(page.locator(".map a").nth(199)).to_be_visible()
        api.stop()
        expect(live).to_contain_text("stale since")
        expect(page.locator(".map a")).to_have_count(200)  # what was known stays, and says how old it is
        store.report(3, headroom=55 * GIB)
        api.start()
        expect(live).to_have_text("live")
        expect(page.locator("[data-host=compute-0003]")).to_have_attribute(
            "aria-label", re.compile("headroom 55.0 GiB")
        )
        window.complaints.clear()  # Chromium tells the console of every connection that failed
    finally:
        api.stop()
