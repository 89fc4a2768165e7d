"""A thousand hosts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from memhint.objects.units import GIB
from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Api, Filled, filled

HOSTS = 1000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return filled(tmp_path_factory.mktemp("large"), HOSTS, 2)


def test_a_thousand_hosts_are_shown_searched_sorted_and_kept_up_to_date(
    api: Api, store: Filled, open_window: Callable[..., Window]
) -> None:
    page = open_window().page
    page.goto(api.dashboard)
    cells = page.locator(".map a")
    expect(cells).to_have_count(HOSTS)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    store.report(999 - 3, headroom=900 * GIB)
    page.get_by_label("Sort").select_option("headroom")
    expect(cells.first).to_have_attribute("data-host", "compute-0996")
    page.get_by_label("Search hosts by name").fill("compute-09")
    expect(cells).to_have_count(100)
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("table", name="Hosts").locator("tbody tr")).to_have_count(100)
    page.get_by_label("Search hosts by name").fill("")
    expect(page.get_by_role("table", name="Hosts").locator("tbody tr")).to_have_count(HOSTS)


def test_a_plan_over_a_thousand_hosts(api: Api, open_window: Callable[..., Window]) -> None:
    page = open_window().page
    page.goto(f"{api.dashboard}#/plan")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("table", name="Hosts of the plan").locator("tbody tr")).to_have_count(HOSTS)
    expect(page.get_by_label("The plan in figures")).to_contain_text("20 of 20")
