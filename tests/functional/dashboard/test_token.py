"""Signing in, where the API wants a token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from playwright.sync_api import expect

from memhint.api.tokens import create
from memhint.objects.reclaim import Reclaim, ReclaimRequest, ReclaimState
from memhint.store import open_store
from memhint.store.reclaims import Reclaims
from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Api, Filled


@dataclass
class Tokens:
    admin: str
    tenant: str


@pytest.fixture(scope="module")
def tokens(store: Filled) -> Tokens:
    admin, one = create("ada", ["admin"])
    tenant, other = create("tim", ["reader"], "blue")
    path = store.file.parent / "tokens"
    path.write_text(f"{one.line()}\n{other.line()}\n")
    path.chmod(0o600)
    return Tokens(admin, tenant)


@pytest.fixture(scope="module")
def api(store: Filled, tokens: Tokens) -> Iterator[Api]:
    served = Api(store, "auth = token", f"token_file = {store.file.parent / 'tokens'}")
    served.start()
    yield served
    served.stop()


@pytest.fixture
def window(window: Window) -> Iterator[Window]:
    yield window
    window.complaints[:] = [one for one in window.complaints if not any(code in one for code in ("401", "403"))]


def sign_in(window: Window, token: str) -> None:
    window.page.get_by_label("Token").fill(token)
    window.page.get_by_role("button", name="Sign in").click()


def test_a_token_opens_the_page_that_was_asked_for(window: Window, api: Api, tokens: Tokens) -> None:
    page = window.page
    page.goto(f"{api.dashboard}#/hosts/compute-0000")
    sign_in(window, tokens.admin)
    expect(page.get_by_role("heading", level=1)).to_have_text("compute-0000")
    expect(page.locator("#live")).to_have_text("live")
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("compute-0000")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    # Signing out loads the page anew. It is a function, which is made once: an expression would be evaluated at each
    # look, and the page's policy lets no script do that.
    page.wait_for_function("() => sessionStorage.length === 0")


def test_a_wrong_token_is_told_from_none(window: Window, tokens: Tokens) -> None:
    expect(window.page.get_by_label("Token")).to_be_visible()
    expect(window.page.get_by_role("alert")).to_have_count(0)
    sign_in(window, "not-a-token")
    expect(window.page.get_by_role("alert")).to_contain_text("did not take this token")


def test_a_tenant_is_shown_the_way_to_its_own_vms(window: Window, tokens: Tokens) -> None:
    page = window.page
    sign_in(window, tokens.tenant)
    expect(page.get_by_role("alert")).to_contain_text("does not see hosts")
    page.get_by_role("link", name="go to your VMs").click()
    rows = page.get_by_role("table", name="VMs").locator("tbody tr")
    expect(rows.first).to_contain_text("blue")
    for row in rows.all()[:20]:
        expect(row).to_contain_text("blue")


def test_a_tenant_sees_how_far_a_reclaim_is(window: Window, store: Filled, tokens: Tokens) -> None:
    page = window.page
    page.clock.install()
    sign_in(window, tokens.tenant)
    page.get_by_role("link", name="go to your VMs").click()
    link = page.get_by_role("table", name="VMs").locator("tbody tr").first.get_by_role("link").first
    uuid = (link.get_attribute("href") or "").removeprefix("#/vms/")
    database = open_store(store.url, create=False)
    line = database.domains.one(uuid)
    assert line is not None
    now = time.time()
    asked = Reclaim(ReclaimRequest("01-tenant", uuid, None, 10.0, 60.0, "to see it", "ada", now, now + 3600))
    database.reclaims.add(asked, line.host)
    link.click()
    row = page.get_by_role("region", name="Reclaims asked of this VM").get_by_role("row").nth(1)
    expect(row).to_contain_text("queued")
    Reclaims(database.database, line.host, 86400.0).save(replace(asked, state=ReclaimState.EXPIRED))
    database.close()
    page.clock.run_for(15_000)
    expect(row).to_contain_text("expired")


def test_the_next_who_signs_in_does_not_see_what_the_one_before_saw(window: Window, tokens: Tokens) -> None:
    page = window.page
    sign_in(window, tokens.admin)
    expect(page.locator(".map a").nth(199)).to_be_visible()
    expect(page.locator("#live")).to_have_text("live")
    page.route("**/v1/domains?*", lambda one: one.fulfill(status=401, json={"errors": []}))
    page.evaluate("location.hash = '#/vms'")
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.locator("#live")).to_have_text("not connected")
    page.unroute("**/v1/domains?*")
    page.route("**/v1/hosts?*", lambda one: None)  # it is never answered
    page.evaluate("location.hash = '#/fleet'")
    sign_in(window, tokens.tenant)
    expect(page.get_by_role("heading", name="Fleet", level=1)).to_be_visible()
    expect(page.locator("#live")).to_have_text("connecting")
    expect(page.locator(".map a")).to_have_count(0)
    page.unroute("**/v1/hosts?*")


def test_a_browser_that_keeps_nothing_takes_a_token_until_the_page_is_left(
    api: Api, tokens: Tokens, open_window: Callable[..., Window]
) -> None:
    window = open_window()
    page = window.page
    page.add_init_script("""Object.defineProperty(window, "sessionStorage", {
        get() { throw new DOMException("denied", "SecurityError"); },
    })""")
    page.goto(api.dashboard)
    expect(page.get_by_label("Token")).to_be_visible(timeout=20_000)
    sign_in(window, tokens.admin)
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator(".map a").nth(199)).to_be_visible()
    window.complaints[:] = [one for one in window.complaints if "401" not in one]
