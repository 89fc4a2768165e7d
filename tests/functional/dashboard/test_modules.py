"""The pure parts, in the browser that runs them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from memhint.objects.units import GIB, MIB
from tests.functional.dashboard.browser import Window


def run(page: Page, module: str, body: str, argument: object = None) -> object:
    return page.evaluate(
        f"async (given) => {{ const m = await import(new URL('{module}', document.baseURI)); {body} }}", argument
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "unknown"),
        (0, "0 MiB"),
        (512 * MIB, "512 MiB"),
        (3.5 * GIB, "3.5 GiB"),
        (12480 * GIB, "12\u202f480 GiB"),
        (-2 * GIB, "-2.0 GiB"),
    ],
)
def test_memory_in_words(page: Page, size: float | None, text: str) -> None:
    assert run(page, "lib/units.js", "return m.memory(given);", size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "unknown"), (0, "0.00"), (1, "<0.01"), (GIB // 100, "0.01"), (1234 * GIB, "1\u202f234.00")],
)
def test_memory_in_a_column(page: Page, size: int | None, text: str) -> None:
    assert run(page, "lib/units.js", "return m.gib(given);", size) == text


@pytest.mark.parametrize(
    ("number", "text"), [(None, "unknown"), (0, "0 hosts"), (1, "1 host"), (1200, "1\u202f200 hosts")]
)
def test_a_number_of_things(page: Page, number: int | None, text: str) -> None:
    assert run(page, "lib/units.js", 'return m.counted(given, "host");', number) == text


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_events_are_parsed_wherever_the_network_cuts_them(page: Page, cut: int) -> None:
    whole = 'retry: 3000\n\nid: 7\nevent: hosts\ndata: {"a":\ndata: 1}\n\n: still here\n\r\n'
    text = f"{whole}event: event\r\ndata: {{}}\r\n\r\ndata: lost"
    body = """const seen = []; const push = m.eventParser((event) => seen.push(event));
        for (let at = 0; at < given[0].length; at += given[1]) push(given[0].slice(at, at + given[1])); return seen;"""
    assert run(page, "lib/stream.js", body, [text, cut]) == [
        {"type": "hosts", "data": '{"a":\n1}', "id": "7"},
        {"type": "event", "data": "{}", "id": None},
    ]


def test_an_id_that_comes_alone_is_told(page: Page) -> None:
    body = "const seen = []; m.eventParser((event) => seen.push(event))(given); return seen;"
    assert run(page, "lib/stream.js", body, "retry: 3000\n\nid: 7-1-2-3\n\n: still here\n\n") == [
        {"type": "id", "data": "null", "id": "7-1-2-3"}
    ]


@pytest.mark.parametrize(
    "domain",
    [
        {"assigned": 100, "resident": 60, "unreported": 20, "reported": 30, "shared": 5, "swap": 0},
        {"assigned": 100, "resident": 110, "unreported": 200, "reported": 300, "shared": 5, "swap": 9},
        {"assigned": 100, "resident": None, "unreported": None, "reported": None, "shared": None, "swap": None},
    ],
)
def test_the_pieces_of_a_bar_are_together_what_was_assigned(page: Page, domain: dict[str, int | None]) -> None:
    parts = run(page, "parts/memory_bar.js", "return m.split(given);", domain)
    assert isinstance(parts, dict)
    assert sum(parts.values()) == 100
    assert all(part >= 0 for part in parts.values())


def test_a_chart_breaks_where_points_are_missing(page: Page) -> None:
    points = [{"at": at, "resident": GIB if at != 20 else None} for at in (0, 10, 20, 30, 90, 100)]
    found = run(page, "parts/history_chart.js", 'return m.columns(given, [{ key: "resident" }]);', points)
    assert found == [[0, 10, 20, 30, 40, 90, 100], [1, 1, None, 1, None, 1, 1]]


def test_unknown_is_sorted_last_either_way(page: Page) -> None:
    body = "return [1, -1].map((sign) => [3, null, 1].sort((a, b) => m.compare(a, b, sign)));"
    assert run(page, "parts/table.js", body) == [[1, 3, None], [3, 1, None]]


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_only_what_is_read_is_said_to_be_tried_again(window: Window, method: str) -> None:
    window.page.route("**/v1/lost", lambda one: one.abort())
    body = "try { await m.call(given, '/v1/lost'); } catch (error) { return error.detail; }"
    said = str(run(window.page, "lib/api.js", body, method))
    window.complaints.clear()  # Chromium tells the console of every request that failed
    assert ("tries again by itself" in said) == (method == "GET")
    assert ("may have been changed all the same" in said) == (method != "GET")
