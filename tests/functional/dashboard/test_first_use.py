"""The main job, for somebody who has never seen the dashboard."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Route, expect

from lab.servers.directory import wait_until
from memhint.objects.reclaim import Reclaim, ReclaimState, Stop, released
from memhint.store import open_store
from memhint.store.reclaims import Reclaims
from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Agent, Filled

MOST_CLICKS = 5


def newest_of(store: Filled) -> list[Reclaim]:
    """What was asked of the host with the most unreported memory, the newest first."""
    database = open_store(store.url, create=False)
    try:
        return list(Reclaims(database.database, store.fleet.name(store.fleet.hoarder), 86400.0).newest())
    finally:
        database.close()


def test_the_vm_with_the_most_unreported_memory_is_found_and_reclaimed(
    window: Window, store: Filled, agent: Agent
) -> None:
    page = window.page
    before = {one.request.id for one in newest_of(store)}
    first = page.get_by_role("region", name="Most unreported memory").get_by_role("listitem").first
    expect(first).to_contain_text("GiB")
    first.get_by_role("link").click()
    page.get_by_role("button", name="Reclaim memory").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("Dry run: nothing was changed")
    dialog.get_by_role("button", name="Reclaim now").click()
    expect(dialog).to_contain_text("the guest has no more to give")
    expect(dialog).to_contain_text("24.0 GiB")
    assert window.clicks <= MOST_CLICKS
    expect(page).to_have_url(re.compile(f"{store.fleet.most_unreported}$"))
    asked = newest_of(store)
    mine = [one.request for one in asked if one.request.uuid == store.fleet.most_unreported]
    assert [one.dry_run for one in mine if one.id not in before] == [False, True]
    page.keyboard.press("Escape")
    rows = page.get_by_role("region", name="Reclaims asked of this VM").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("24.0 GiB")


def test_it_is_the_first_row_of_all_vms_too(window: Window, store: Filled) -> None:
    window.page.get_by_role("navigation").get_by_role("link", name="VMs").click()
    table = window.page.get_by_role("table", name="VMs")
    expect(table.locator("tbody tr").first.get_by_role("link").first).to_have_attribute(
        "href", f"#/vms/{store.fleet.most_unreported}"
    )
    expect(table.get_by_role("columnheader", name=re.compile("Unreported"))).to_have_attribute(
        "aria-sort", "descending"
    )


def test_a_reclaim_whose_dialog_is_closed_is_followed_in_the_table(window: Window, store: Filled, agent: Agent) -> None:
    page = window.page
    page.goto(f"{page.url}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("button", name="Reclaim now")).to_be_enabled()
    agent.end()
    dialog.get_by_role("button", name="Reclaim now").click()
    expect(dialog.get_by_role("button", name="Interrupt")).to_be_visible()
    page.keyboard.press("Escape")
    row = page.get_by_role("region", name="Reclaims asked of this VM").get_by_role("row").nth(1)
    expect(row).to_contain_text("queued")
    database = open_store(store.url, create=False)
    reclaims = Reclaims(database.database, store.fleet.name(store.fleet.hoarder), 86400.0)
    for one in reclaims.open():
        reclaims.save(replace(one, state=ReclaimState.EXPIRED))
    database.close()
    store.report(store.fleet.hoarder)
    expect(row).to_contain_text("expired")


def test_without_a_dry_run_nothing_can_be_asked(window: Window, store: Filled) -> None:
    page = window.page
    page.goto(f"{page.url}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    expect(page.get_by_role("button", name="Reclaim now")).to_be_disabled()


def test_what_was_tried_dry_must_be_tried_again_once_it_is_changed(window: Window, store: Filled, agent: Agent) -> None:
    page = window.page
    page.goto(f"{page.url}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("button", name="Reclaim now")).to_be_enabled()
    page.get_by_label("Amount, MiB").fill("100")
    expect(page.get_by_role("button", name="Reclaim now")).to_be_disabled()


def test_a_dry_run_of_an_amount_that_was_changed_meanwhile_allows_nothing(
    window: Window, store: Filled, agent: Agent
) -> None:
    page = window.page
    page.goto(f"{page.url}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    dialog = page.get_by_role("dialog")
    asked: list[Route] = []
    page.route("**/v1/reclaims", lambda one: asked.append(one))
    dialog.get_by_role("button", name="Dry run").click()
    wait_until(lambda: bool(page.evaluate("1")) and bool(asked), "the dry run to be asked for")
    dialog.get_by_label("Amount, MiB").fill("100")
    asked[0].continue_()
    expect(dialog).to_contain_text("would ask for 24576 MiB")
    assert dialog.get_by_role("button", name="Reclaim now").is_disabled()
    page.unroute("**/v1/reclaims")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("button", name="Reclaim now")).to_be_enabled()


def test_a_hold_shows_what_is_taken_back_until_it_is_ended(window: Window, store: Filled, agent: Agent) -> None:
    page = window.page
    page.goto(f"{page.url}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Hold, minutes").fill("10")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("Dry run: nothing was changed")
    dialog.get_by_role("button", name="Reclaim now").click()
    expect(dialog).to_contain_text("what the guest fills again is taken back")
    expect(dialog).to_contain_text("3.0 GiB taken back again")
    database = open_store(store.url, create=False)
    reclaims = Reclaims(database.database, store.fleet.name(store.fleet.hoarder), 86400.0)
    (held,) = [one for one in reclaims.open() if one.state is ReclaimState.HOLDING]
    assert held.request.hold == 600
    end = dialog.get_by_role("button", name="End the hold")
    page.route("**/v1/reclaims/*", lambda one: one.abort() if one.request.method == "DELETE" else one.fallback())
    end.click()
    expect(dialog.get_by_role("alert")).to_be_visible()  # and it stays, and can be tried again
    expect(end).to_be_enabled()
    page.unroute("**/v1/reclaims/*")
    window.complaints.clear()  # Chromium tells the console of every request that failed
    end.click()
    expect(end).to_be_disabled()
    wait_until(lambda: held.request.id in reclaims.interrupted(), "the word to end it")
    agent.end()
    reclaims.save(released(held, Stop.INTERRUPTED, held.held.until - 300))
    database.close()
    expect(dialog).to_contain_text("ended (it was interrupted)")
    page.keyboard.press("Escape")
    rows = page.get_by_role("region", name="Reclaims asked of this VM").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("it was interrupted")


@pytest.mark.parametrize(
    ("refused", "says"), [(False, "Stored, and not at its host yet"), (True, "Stored, and refused")]
)
def test_a_request_that_is_not_at_its_host_says_why(window: Window, store: Filled, refused: bool, says: str) -> None:
    def undelivered(one: Route) -> None:
        answer = one.fetch()
        delivery = {"taken": False, "refused": refused, "detail": "the broker does not answer"}
        one.fulfill(response=answer, json={**answer.json(), "delivery": delivery})

    page = window.page
    page.goto(f"{page.url}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    dialog = page.get_by_role("dialog")
    page.route("**/v1/reclaims", undelivered)
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text(says)
    expect(dialog).to_contain_text("the broker does not answer")
    page.unroute("**/v1/reclaims")
    database = open_store(store.url, create=False)
    reclaims = Reclaims(database.database, store.fleet.name(store.fleet.hoarder), 86400.0)
    (mine,) = [one for one in reclaims.open() if one.request.uuid == store.fleet.most_unreported]
    reclaims.save(replace(mine, state=ReclaimState.EXPIRED))
    database.close()
    expect(dialog).not_to_contain_text(says)
    expect(dialog.get_by_role("button", name="Dry run")).to_be_enabled()


def test_a_reclaim_is_followed_on_when_the_api_was_away(window: Window, store: Filled, agent: Agent) -> None:
    page = window.page
    page.goto(f"{page.url}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    dialog = page.get_by_role("dialog")
    page.route("**/v1/reclaims/*", lambda one: one.abort() if one.request.method == "GET" else one.fallback())
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog).to_contain_text("asking for its state again")
    page.unroute("**/v1/reclaims/*")
    expect(dialog).to_contain_text("Dry run: nothing was changed", timeout=60_000)
    expect(dialog).not_to_contain_text("asking for its state again")
    window.complaints.clear()  # Chromium tells the console of every request that failed


def test_what_nobody_knows_is_not_shown_as_zero(window: Window) -> None:
    page = window.page
    page.goto(f"{page.url}#/vms?sort=name:asc")
    names = page.get_by_role("table", name="VMs").locator("tbody tr")
    expect(names.first).to_be_visible()
    told = page.evaluate(
        """async () => {
            const { domains } = await (await fetch("../v1/domains?limit=100&sort=name:asc")).json();
            const rows = [...document.querySelectorAll("tbody tr")];
            const heads = [...document.querySelectorAll("thead th")];
            const column = heads.findIndex((one) => one.textContent.includes("Unreported"));
            return domains.map((one, at) => [one.unreported, rows[at].children[column].textContent]);
        }"""
    )
    unknown = [text for value, text in told if value is None]
    assert unknown
    assert set(unknown) == {"unknown"}
    assert all(text != "unknown" for value, text in told if value is not None)
