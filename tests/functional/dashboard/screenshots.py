"""`make screenshots`: the dashboard over a synthetic fleet, as doc/ shows it."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect

from tests.functional.dashboard.browser import SIZE, Window, chromium
from tests.functional.dashboard.served import Agent, Api, Filled, filled

HIGH: ViewportSize = {"width": 1280, "height": 1010}


def take(page: Page, path: Path) -> None:
    """One picture, of 256 colours: a quarter of the size, and nothing is lost that one could see."""
    page.screenshot(path=path)
    picture = Image.open(path).convert("RGB")
    small = picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1024} KiB")


def fleet(page: Page, api: Api, folder: Path, suffix: str) -> None:
    """The first page."""
    page.goto(api.dashboard)
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator(".chart canvas")).to_be_visible()
    expect(page.locator(".most li").first).to_be_visible()
    take(page, folder / f"dashboard-fleet-{suffix}.png")


def pages(window: Window, api: Api, store: Filled, folder: Path, suffix: str) -> None:
    """Those of one host, one VM and its dialogs."""
    page = window.page
    pressed = next(host for host in range(200) if store.fleet.pressed(host) and not store.fleet.stale(host))
    page.goto(f"{api.dashboard}#/hosts/{store.fleet.name(pressed)}")
    expect(page.locator("tbody tr").first).to_be_visible()
    take(page, folder / f"dashboard-host-{suffix}.png")
    page.goto(f"{api.dashboard}#/vms/{store.fleet.most_unreported}")
    page.get_by_role("button", name="Reclaim memory").click()
    page.get_by_role("button", name="Dry run").click()
    page.get_by_role("button", name="Reclaim now").click()
    expect(page.get_by_role("dialog")).to_contain_text("the guest has no more to give")
    take(page, folder / f"dashboard-reclaim-{suffix}.png")
    page.keyboard.press("Escape")
    page.goto(f"{api.dashboard}#/plan?count=1200&gib=4")
    page.get_by_role("button", name="Refuses").click()
    expect(page.locator("tbody tr").first).to_contain_text("headroom")
    take(page, folder / f"dashboard-plan-{suffix}.png")


def main() -> None:
    """Take them all."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "doc")
    with tempfile.TemporaryDirectory(prefix="memhint-") as work:
        store = filled(Path(work), 200, 20, past=6 * 3600.0, period=10.0)
        api, agent, stop = Api(store), Agent(store), threading.Event()
        hosts = threading.Thread(target=store.follow, args=(stop.is_set,))
        for one in (api, agent, hosts):
            one.start()
        try:
            with chromium() as browser:
                light, dark = Window(browser, HIGH), Window(browser, HIGH, dark=True)
                fleet(light.page, api, folder, "light")
                fleet(dark.page, api, folder, "dark")
                dark.page.set_viewport_size(SIZE)
                pages(dark, api, store, folder, "dark")
        finally:
            stop.set()
            hosts.join()
            agent.end()
            api.stop()


if __name__ == "__main__":
    main()
