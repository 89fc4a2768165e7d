"""What is shown where an answer is not whole, or is not the API's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from lab.servers.directory import wait_until
from tests.functional.dashboard.browser import Window
from tests.functional.dashboard.served import Api, Filled

HEAD = b"HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


class Breaking(threading.Thread):
    """A server that sends the beginning of an answer to each question. Then it is still, or the connection breaks."""

    def __init__(self, breaks: bool) -> None:
        super().__init__(daemon=True)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._breaks = breaks
        self.begun: list[socket.socket] = []
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def run(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.recv(65536)
            connection.sendall(HEAD + b'{"reclaim": {"id": "')
            self.begun.append(connection)
            if self._breaks:
                connection.close()

    def end(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self.begun:
            one.close()


@pytest.fixture
def breaking() -> Iterator[Callable[[bool], Breaking]]:
    servers: list[Breaking] = []

    def started(breaks: bool) -> Breaking:
        servers.append(Breaking(breaks))
        servers[-1].start()
        return servers[-1]

    yield started
    for one in servers:
        one.end()


def dry_run(page: Page, api: Api, store: Filled, answer: Callable[[Route], None]) -> str:
    """What the dialog says of a dry run whose request is answered so."""
    page.route("**/v1/reclaims", lambda one: answer(one) if one.request.method == "POST" else one.continue_())
    page.goto(f"{api.dashboard}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    page.get_by_role("button", name="Dry run").click()
    said = page.get_by_role("dialog").get_by_role("alert")
    expect(said).to_be_visible()
    page.unroute("**/v1/reclaims")
    return said.text_content() or ""


def test_a_change_whose_answer_breaks_off_may_have_been_made(
    window: Window, api: Api, store: Filled, breaking: Callable[[bool], Breaking]
) -> None:
    server = breaking(True)
    said = dry_run(window.page, api, store, lambda one: one.continue_(url=f"{server.address}/v1/reclaims"))
    window.complaints.clear()  # Chromium tells the console of it
    assert "may have been changed all the same" in said


def test_a_change_whose_answer_is_cut_may_have_been_made(window: Window, api: Api, store: Filled) -> None:
    cut = '{"reclaim": {"id": "'
    said = dry_run(
        window.page, api, store, lambda one: one.fulfill(status=202, content_type="application/json", body=cut)
    )
    assert "may have been changed all the same" in said


def test_a_page_of_something_else_is_told_from_the_api(window: Window, api: Api, store: Filled) -> None:
    said = dry_run(
        window.page, api, store, lambda one: one.fulfill(status=200, content_type="text/html", body="<p>Sign in</p>")
    )
    assert "is not the API" in said


def test_a_page_of_something_else_is_told_from_the_api_where_a_list_is_asked_for(page: Page, api: Api) -> None:
    page.route("**/v1/domains?*", lambda one: one.fulfill(content_type="text/html", body="<p>Sign in</p>"))
    page.goto(f"{api.dashboard}#/vms")
    expect(page.get_by_role("alert")).to_contain_text("is not the API")
    page.unroute("**/v1/domains?*")


def test_an_answer_that_nobody_waits_for_any_more_is_no_trouble(
    page: Page, api: Api, breaking: Callable[[bool], Breaking]
) -> None:
    server = breaking(False)
    page.goto(f"{api.dashboard}#/plan")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("""() => {
        const place = document.getElementById("announcer");
        window.said = [];
        new MutationObserver(() => place.textContent && said.push(place.textContent)).observe(place, {childList: true});
    }""")
    page.route("**/v1/domains?*", lambda one: one.continue_(url=f"{server.address}/v1/domains"))
    with page.expect_response("**/v1/domains*"):
        page.evaluate("location.hash = '#/vms'")
    wait_until(lambda: bool(page.evaluate("1")) and bool(server.begun), "an answer to begin")
    page.evaluate("location.hash = '#/refusals'")
    expect(page.get_by_role("heading", level=1)).to_have_text("Refusals")
    # Two frames: the announcer speaks in the next one.
    page.evaluate("() => new Promise((next) => requestAnimationFrame(() => requestAnimationFrame(next)))")
    assert page.evaluate("said") == []
    page.unroute("**/v1/domains?*")
