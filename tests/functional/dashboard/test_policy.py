from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from playwright.sync_api import Page, Route, expect

from lab.servers.directory import wait_until
from memhint.objects.policy import Origin
from memhint.store import open_store
from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Api, Filled

# Counts an answer once the page has done with it what it does.
_COUNT_ANSWERS = """() => {
    const json = Response.prototype.json;
    window.answers = 0;
    Response.prototype.json = async function () {
        const found = await json.call(this);
        setTimeout(() => (window.answers += this.url.includes("dry_run") ? 1 : 0));
        return found;
    };
}"""


def wishes(store: Filled, uuid: str) -> dict[str, str]:
    database = open_store(store.url, create=False)
    try:
        return dict(database.policies.inputs(uuid).get(uuid, {}).get(Origin.OPERATOR, {}))
    finally:
        database.close()


def somebody(store: Filled, uuid: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> None:
    """Somebody else changes a VM's policy."""
    database = open_store(store.url, create=False)
    database.policies.set_operator(uuid, values, unset)
    database.close()


def test_a_wish_is_tried_dry_then_applied_then_taken_back(page: Page, api: Api, store: Filled) -> None:
    uuid = store.fleet.most_unreported
    page.goto(f"{api.dashboard}#/vms/{uuid}")
    page.get_by_role("button", name="Edit policy").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Apply")).to_be_disabled()
    dialog.get_by_label("dedup").select_option("auto")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("table", name="What would change").get_by_role("row").nth(1)).to_have_text(
        "dedupoff (default)auto (operator)"
    )
    assert wishes(store, uuid) == {}
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    row = page.get_by_role("table", name="Policy of this VM").get_by_role("row", name="dedup")
    expect(row).to_contain_text("auto")
    expect(row).to_contain_text("operator")
    assert wishes(store, uuid) == {"dedup": "auto"}

    page.get_by_role("button", name="Edit policy").click()
    dialog.get_by_label("dedup").select_option("inherit")
    dialog.get_by_role("button", name="Dry run").click()
    dialog.get_by_role("button", name="Apply").click()
    expect(row).to_contain_text("default")
    assert wishes(store, uuid) == {}


def test_a_dry_run_of_values_that_were_changed_meanwhile_allows_nothing(page: Page, api: Api, store: Filled) -> None:
    uuid = store.fleet.most_unreported
    page.goto(f"{api.dashboard}#/vms/{uuid}")
    page.get_by_role("button", name="Edit policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("dedup").select_option("auto")
    asked: list[Route] = []
    page.route("**/policy?dry_run=true", lambda one: asked.append(one))
    page.evaluate(_COUNT_ANSWERS)
    dialog.get_by_role("button", name="Dry run").click()
    wait_until(lambda: bool(page.evaluate("1")) and bool(asked), "the dry run to be asked for")
    dialog.get_by_label("balloon", exact=True).select_option("allow")
    asked[0].continue_()
    wait_until(lambda: page.evaluate("window.answers") == 1, "the answer to be taken in")
    assert dialog.get_by_role("button", name="Apply").is_disabled()
    expect(dialog.get_by_role("table", name="What would change")).to_have_count(0)
    page.unroute("**/policy?dry_run=true")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("table", name="What would change").get_by_role("row")).to_have_count(3)
    expect(dialog.get_by_role("button", name="Apply")).to_be_enabled()
    assert wishes(store, uuid) == {}


def test_a_value_that_a_key_does_not_take_is_refused_in_words(
    page: Page, api: Api, store: Filled, window: Window
) -> None:
    page.goto(f"{api.dashboard}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Edit policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("min_mb").fill("many")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("min_mb")
    expect(dialog.get_by_role("button", name="Apply")).to_be_disabled()
    window.complaints.clear()  # Chromium tells the console of every 400


@pytest.mark.parametrize(("refused", "word"), [(True, "refused"), (False, "pending")])
def test_a_wish_that_its_host_has_not_taken_is_told_so(
    page: Page, api: Api, store: Filled, refused: bool, word: str
) -> None:
    uuid = store.fleet.most_unreported
    page.goto(f"{api.dashboard}#/vms/{uuid}")
    page.get_by_role("button", name="Edit policy").click()
    dialog = page.get_by_role("dialog")

    def undelivered(one: Route) -> None:
        answer = one.fetch()
        delivery = {"taken": False, "detail": "compute-0085: no such key", "refused": refused}
        one.fulfill(response=answer, json={**answer.json(), "delivery": delivery})

    page.route("**/policy", lambda one: undelivered(one) if one.request.method == "PUT" else one.fallback())
    dialog.get_by_label("dedup").select_option("auto")
    dialog.get_by_role("button", name="Dry run").click()
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("status")).to_contain_text("compute-0085: no such key")
    expect(dialog.get_by_role("status")).to_contain_text(word)
    expect(page.get_by_role("table", name="Policy of this VM").get_by_role("row", name="dedup")).to_contain_text("auto")
    expect(dialog.get_by_role("button", name="Apply")).to_have_count(0)
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    somebody(store, uuid, {}, ["dedup"])


def test_a_link_leads_straight_to_the_policy(page: Page, api: Api, store: Filled) -> None:
    page.goto(f"{api.dashboard}#/vms/{store.fleet.most_unreported}?edit=policy")
    expect(page.get_by_role("dialog")).to_contain_text("Policy of")


def test_what_is_wished_on_the_host_is_kept_when_that_is_chosen(
    page: Page, api: Api, store: Filled, window: Window
) -> None:
    uuid = store.fleet.most_unreported
    somebody(store, uuid, {"reporting": "off", "swap_out": "allow"})
    page.goto(f"{api.dashboard}#/vms/{uuid}")
    page.get_by_role("button", name="Edit policy").click()
    dialog = page.get_by_role("dialog")
    sent: list[dict[str, str | None]] = []

    def of_fleet(one: Route) -> None:
        """As a fleet's API, which has no wishes of this VM yet."""
        sent.append(one.request.post_data_json["policy"])
        if {"reporting", "swap_out"} <= sent[-1].keys():
            one.continue_()
            return
        error = {"status": 409, "code": "memhint.policy.on_host", "title": "Conflict", "detail": "on compute-0085 …"}
        one.fulfill(status=409, json={"errors": [error]})

    page.route("**/policy?dry_run=true", of_fleet)
    dialog.get_by_label("guest_actions").select_option("allow")
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Keep them as the fleet's wishes")
    expect(dialog).not_to_contain_text("Something else changed it")
    box = dialog.get_by_role("checkbox", name="reporting=off, swap_out=allow")
    expect(box).not_to_be_checked()  # nothing of a host's word is taken over unasked
    box.check()
    dialog.get_by_role("button", name="Dry run").click()
    changes = dialog.get_by_role("table", name="What would change").get_by_role("row")
    expect(changes.nth(1)).to_contain_text("guest_actions")
    expect(changes).to_have_count(2)
    assert sent == [
        {"guest_actions": "allow"},
        {"guest_actions": "allow", "reporting": "off", "swap_out": "allow"},
    ]
    page.unroute("**/policy?dry_run=true")
    somebody(store, uuid, {}, ["reporting", "swap_out"])
    window.complaints.clear()  # Chromium tells the console of every 409


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(
    page: Page, api: Api, store: Filled, window: Window
) -> None:
    uuid = store.fleet.most_unreported
    page.goto(f"{api.dashboard}#/vms/{uuid}")
    page.get_by_role("button", name="Edit policy").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("dedup").select_option("auto")
    somebody(store, uuid, {"balloon": "allow"})
    dialog.get_by_role("button", name="Dry run").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Somebody changed it since it was read")
    expect(dialog.get_by_role("button", name="Apply")).to_be_disabled()
    assert "dedup" not in wishes(store, uuid)
    somebody(store, uuid, {}, ["balloon"])
    window.complaints.clear()  # Chromium tells the console of every 412
