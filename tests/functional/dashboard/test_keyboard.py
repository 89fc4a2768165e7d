"""No mouse: everything by Tab, arrows, Enter and Escape."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Agent, Filled

# All that is asked of it at once: between two questions the focus may move.
FOCUSED = """() => {
    const one = document.activeElement;
    const { outlineWidth, outlineStyle } = getComputedStyle(one);
    const outlined = parseFloat(outlineWidth) >= 1 && outlineStyle !== "none";
    return {
        text: (one.matches("a, button") ? one.textContent : "") + " " + (one.getAttribute("aria-label") ?? ""),
        seen: one === document.body || one.matches("h1, main") || outlined,
        html: one.outerHTML.slice(0, 300),
    };
}"""


def tab_to(page: Page, text: str, key: str = "Tab", most: int = 60) -> None:
    """Press the key until what has the focus says `text`; every place on the way must be seen to have it."""
    for _ in range(most):
        page.keyboard.press(key)
        focused = page.evaluate(FOCUSED)
        assert focused["seen"], focused["html"]
        if text in focused["text"]:
            return
    raise AssertionError(f"{text!r} was not reached; the focus is at {page.evaluate(FOCUSED)!r}")


def test_the_first_tab_skips_to_the_content(page: Page) -> None:
    expect(page.locator(".map a").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert "#/" not in page.url or page.url.endswith("#/fleet")


def test_the_map_is_one_stop_and_arrows_move_in_it(page: Page) -> None:
    expect(page.locator(".map a").nth(199)).to_be_visible()
    tab_to(page, "compute-0000")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-host=compute-0001]")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => Number((document.activeElement.dataset.host ?? '').slice(-4)) > 2")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("End")
    expect(page.locator("[data-host=compute-0199]")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.wait_for_function("() => !document.activeElement.matches('.map a')")


def test_a_reclaim_without_a_mouse(window: Window, store: Filled, agent: Agent) -> None:
    page = window.page
    host = store.fleet.name(store.fleet.hoarder)
    expect(page.locator(f"[data-host={host}]")).to_be_visible()
    tab_to(page, "Search hosts by name")
    page.keyboard.type(host)
    expect(page.locator(".map a")).to_have_count(1)
    tab_to(page, host)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(host)
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    row = page.get_by_role("table", name=f"VMs of {host}").locator("tbody tr").first
    name = row.get_by_role("link").text_content() or ""
    tab_to(page, name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_role("button", name="Reclaim memory")).to_be_enabled()
    tab_to(page, "Reclaim memory")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    tab_to(page, "Dry run")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Reclaim now")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("the guest has no more to give")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Reclaim memory")).to_be_focused()


def test_a_table_is_sorted_by_its_headings(page: Page) -> None:
    page.goto(f"{page.url.split('#')[0]}#/vms")
    table = page.get_by_role("table", name="VMs")
    expect(table.locator("tbody tr")).to_have_count(100)
    tab_to(page, "Assigned")
    page.keyboard.press("Enter")
    heading = table.get_by_role("columnheader", name=re.compile("Assigned"))
    expect(heading).to_have_attribute("aria-sort", "descending")
    page.keyboard.press("Space")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(page).to_have_url(re.compile("sort=assigned%3Aasc"))


def test_the_chart_has_a_cursor_of_its_own(page: Page) -> None:
    chart = page.get_by_role("group", name="Memory of the fleet")
    expect(chart.locator("canvas")).to_be_visible()
    chart.focus()
    page.keyboard.press("Home")
    announcer = page.locator("#announcer")
    expect(announcer).to_contain_text("Footprint")
    before = announcer.text_content()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(
        """(before) => {
            const now = document.getElementById("announcer").textContent;
            return now.includes("Footprint") && now !== before;
        }""",
        arg=before,
    )


def test_a_row_keeps_the_focus_while_others_go_and_come(page: Page) -> None:
    turned: list[str] = []

    def answer(one: Route) -> None:
        found = one.fetch()
        vms = found.json()["domains"][:10]
        if "gone" in turned:
            vms = vms[1:]
        if "sorted" in turned:
            vms = vms[::-1]
        one.fulfill(response=found, json={"domains": vms})

    page.route("**/v1/domains?*limit=100*", answer)
    page.goto(f"{page.url.split('#')[0]}#/vms")
    rows = page.get_by_role("table", name="VMs").locator("tbody tr")
    expect(rows).to_have_count(10)
    link = rows.nth(3).get_by_role("link").first
    name = link.text_content() or ""
    link.focus()
    again = page.get_by_label("State")
    turned.append("gone")
    again.dispatch_event("change")
    expect(rows).to_have_count(9)
    expect(rows.nth(2).get_by_role("link", name=name)).to_be_focused()
    turned.append("sorted")
    again.dispatch_event("change")
    expect(rows.nth(6)).to_contain_text(name)
    expect(rows.nth(6).get_by_role("link", name=name)).to_be_focused()
    page.unroute("**/v1/domains?*limit=100*")


def test_a_cell_of_the_map_keeps_the_focus_while_others_go_and_come(page: Page) -> None:
    cells = page.locator(".map a")
    expect(cells.nth(199)).to_be_visible()
    cell = page.locator("[data-host=compute-0150]")
    cell.focus()
    page.get_by_label("Search hosts by name").evaluate(
        "(one) => { one.value = 'compute-01'; one.dispatchEvent(new Event('input')); }"
    )
    expect(cells).to_have_count(100)
    expect(cell).to_be_focused()
    page.get_by_label("Search hosts by name").evaluate(
        "(one) => { one.value = ''; one.dispatchEvent(new Event('input')); }"
    )
    expect(cells).to_have_count(200)
    expect(cell).to_be_focused()


def test_the_host_of_a_vm_keeps_the_focus_while_the_vm_is_read_again(page: Page, store: Filled) -> None:
    page.goto(f"{page.url.split('#')[0]}#/vms/{store.fleet.most_unreported}")
    crumb = page.locator(".crumbs a").nth(1)
    crumb.focus()
    seen = page.locator(".states time").element_handle()
    store.report(int((crumb.text_content() or "")[-4:]))
    page.wait_for_function("(one) => !one.isConnected", arg=seen)
    expect(crumb).to_be_focused()
