"""Debian's Chromium under Playwright, and a page that takes nothing amiss in silence."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

# The shell has no windows and menus of its own, which the browser runs as pages: it takes two thirds of the time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = os.environ.get("MEMHINT_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), "/usr/bin/chromium")
SIZE: ViewportSize = {"width": 1280, "height": 800}
PATIENCE = 180_000  # ms: other work may load the machine
# Only what a person did, and never what a script did on their behalf.
_COUNTS = """addEventListener("click", (event) => {
    if (event.isTrusted) window.clicks = (window.clicks ?? 0) + 1;
}, true)"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--force-color-profile=srgb", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """One page of its own context, what it complained of, and how often somebody clicked."""

    def __init__(self, browser: Browser, size: ViewportSize = SIZE, dark: bool = False) -> None:
        self._context = browser.new_context(
            viewport=size, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        self._context.set_default_timeout(PATIENCE)
        self.page: Page = self._context.new_page()
        self.page.add_init_script(_COUNTS)
        self.complaints: list[str] = []
        self.page.on(
            "console",
            lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None,
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    @property
    def clicks(self) -> int:
        return int(self.page.evaluate("window.clicks ?? 0"))

    def close(self) -> None:
        self._context.close()
