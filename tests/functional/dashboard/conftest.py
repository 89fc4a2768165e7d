from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.functional.dashboard.browser import SIZE, Window, chromium
from tests.functional.dashboard.served import Agent, Api, Filled, filled

HOSTS, VMS = 200, 20


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """A fleet of 200 hosts. Tests get copies of it."""
    return filled(tmp_path_factory.mktemp("fleet"), HOSTS, VMS, past=3600.0)


@pytest.fixture(scope="module")
def store(template: Filled, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return template.copy(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def api(store: Filled) -> Iterator[Api]:
    served = Api(store)
    served.start()
    yield served
    served.stop()


@pytest.fixture
def agent(store: Filled) -> Iterator[Agent]:
    playing = Agent(store)
    playing.start()
    yield playing
    playing.end()


@pytest.fixture
def open_window(browser: Browser) -> Iterator[Callable[..., Window]]:
    """Windows that are closed at the end. None of them may have complained, unless a test took the complaints."""
    windows: list[Window] = []

    def opened(size: ViewportSize = SIZE, dark: bool = False) -> Window:
        windows.append(Window(browser, size, dark))
        return windows[-1]

    yield opened
    complaints = [one for window in windows for one in window.complaints]
    for window in windows:
        window.close()
    assert complaints == []


@pytest.fixture
def window(api: Api, open_window: Callable[..., Window]) -> Window:
    """The dashboard's first page, as a first-time user finds it."""
    opened = open_window()
    opened.page.goto(api.dashboard)
    return opened


@pytest.fixture
def page(window: Window) -> Page:
    return window.page
