"""axe-core finds nothing against WCAG 2.2 AA, in any view, dark and light."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Api, Filled, filled

# Only faults are looked at: what it makes of everything else, node by node, is most of its work.
OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
VIEWS = {
    "fleet": ("#/fleet", ".map a"),
    "fleet by pressure": ("#/fleet?colour=pressure", ".map a"),
    "fleet by unreported memory": ("#/fleet?colour=unreported", ".map a"),
    "fleet as a table": ("#/fleet?as=table&q=compute-00", "tbody tr"),
    "host": ("#/hosts/compute-0000", "tbody tr"),
    "host under pressure": ("#/hosts/compute-0023", ".ladder .entered"),
    "VMs": ("#/vms", "tbody tr"),
    "VM": ("#/vms/MOST", "tbody tr"),
    "plan": ("#/plan?count=20&gib=4", "tbody tr"),
    "refusals": ("#/refusals", "tbody tr"),
    "events": ("#/events", "tbody tr"),
    "no such page": ("#/nowhere", "h1"),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Small: each node is looked at for each rule, and the two hundredth host is made of the same elements.

    There is more than one page of VMs and of events, and a host that is late.
    """
    return filled(tmp_path_factory.mktemp("small"), 40, 12, past=3600.0)


def faults(page: Page) -> list[str]:
    found = Axe().run(page, options=OPTIONS).response["violations"]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"][:3]]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view(api: Api, store: Filled, open_window: Callable[..., Window], view: str, dark: bool) -> None:
    page = open_window(dark=dark).page
    address, seen = VIEWS[view]
    page.goto(api.dashboard + address.replace("MOST", store.fleet.most_unreported))
    expect(page.locator(seen).first).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")  # its colours go with what it says
    assert faults(page) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["Reclaim memory", "Edit policy"])
def test_every_dialog(api: Api, store: Filled, open_window: Callable[..., Window], name: str, dark: bool) -> None:
    page = open_window(dark=dark).page
    page.goto(f"{api.dashboard}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name=name).click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Dry run")).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    assert faults(page) == []


def test_a_fault_would_be_found(page: Page) -> None:
    page.evaluate("document.querySelector('h1').insertAdjacentElement('afterend', document.createElement('button'))")
    assert any(one.startswith("button-name") for one in faults(page))


def test_one_heading_and_the_landmarks(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    for role in ("banner", "navigation", "main"):
        expect(page.get_by_role(role)).to_have_count(1)


def test_a_narrow_window_scrolls_only_downwards(api: Api, open_window: Callable[..., Window], store: Filled) -> None:
    page = open_window(size={"width": 360, "height": 740}).page
    for address, seen in VIEWS.values():
        # The address changes a moment before the view does: what is seen must not be the view before.
        page.evaluate("document.querySelector('.view')?.setAttribute('data-before', '')")
        page.goto(api.dashboard + address.replace("MOST", store.fleet.most_unreported))
        expect(page.locator("[data-before]")).to_have_count(0)
        expect(page.locator(seen).first).to_be_visible()
        expect(page.locator("#live")).to_have_text("live")
        # In its own letters: until they are there, others stand for them, which may be wider.
        wide = page.evaluate("document.fonts.ready.then(() => document.documentElement.scrollWidth)")
        assert wide <= 360, address


def test_the_switch_overrules_the_system_and_is_remembered(page: Page) -> None:
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_label("Colours").select_option("dark")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark


def test_what_is_chosen_is_seen_in_the_colours_of_the_system(page: Page) -> None:
    page.emulate_media(forced_colors="active")
    chart = page.get_by_role("group", name="Memory of the fleet")
    expect(chart.locator("canvas")).to_be_visible()
    looks = """(all) => all.map((one) => {
        const { backgroundColor, color } = getComputedStyle(one);
        return backgroundColor + " " + color;
    })"""
    for pressed, others in (
        (".switch [aria-pressed=true]", ".switch [aria-pressed=false]"),
        (".top nav [aria-current]", ".top nav a:not([aria-current])"),
    ):
        chosen = set(page.locator(pressed).evaluate_all(looks))
        rest = set(page.locator(others).evaluate_all(looks))
        assert chosen, pressed
        assert rest, others
        assert not chosen & rest, pressed


def test_the_lines_of_a_chart_have_their_colours_in_those_of_the_system(page: Page) -> None:
    chart = page.locator(".chart").filter(has=page.get_by_role("group", name="Memory of the fleet"))
    expect(chart.locator("canvas")).to_be_visible()
    shown = """async () => {
        const { colour } = await import(new URL("lib/theme.js", document.baseURI));
        const signs = [...document.querySelectorAll(".chart .line-sign")];
        return [
            signs.map((one) => getComputedStyle(one).borderTopColor),
            ["--used", "--reported", "--unreported"].map(colour),
        ];
    }"""
    signs, drawn = page.evaluate(shown)
    assert len(set(signs)) > 2
    assert len(set(drawn)) == 3
    page.emulate_media(forced_colors="active")
    assert page.evaluate(shown) == [signs, drawn]
