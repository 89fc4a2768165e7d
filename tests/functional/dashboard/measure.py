"""What a large fleet costs the browser: `python -m tests.functional.dashboard.measure [HOSTS]`. Milliseconds."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect

from tests.functional.dashboard.browser import Window, chromium
from tests.functional.dashboard.served import Api, filled

# All hosts with new figures, drawn by the parts themselves: the median of eleven, layout and style included.
_DRAW = """async (part) => {
    const { fleetMap } = await import(new URL("parts/fleet_map.js", document.baseURI));
    const { hostTable } = await import(new URL("parts/host_table.js", document.baseURI));
    const { hosts } = await (await fetch("../v1/hosts?limit=1000")).json();
    const place = document.createElement("div");
    document.querySelector("main").replaceChildren(place);
    const shown = part === "map" ? fleetMap() : hostTable();
    place.append(shown.element);
    const took = [];
    for (let turn = 0; turn < 12; turn += 1) {
        const more = (host) => ({ ...host, slots: host.slots + turn, headroom: host.headroom + turn * 2 ** 30 });
        const changed = hosts.map(more);
        const began = performance.now();
        shown.update(changed, "headroom");
        place.offsetHeight;
        took.push(performance.now() - began);
    }
    const [first, ...later] = took;
    return [first, later.sort((a, b) => a - b)[5]];
}"""


def main() -> None:
    """Print a line for the whole page and for each part."""
    hosts = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory(prefix="memhint-") as work:
        api = Api(filled(Path(work), hosts, 2))
        api.start()
        try:
            with chromium() as browser:
                page = Window(browser).page
                page.goto(api.dashboard)
                expect(page.locator(".map a")).to_have_count(hosts)
                cells = "performance.getEntriesByType('navigation')[0].responseStart"
                shown = page.evaluate(f"performance.now() - {cells}")
                print(f"{hosts} hosts: all cells seen within {shown:.0f} of the page's first byte")
                for part in ("map", "table"):
                    first, again = page.evaluate(_DRAW, part)
                    print(f"{part}: first drawn in {first:.0f}, with new figures for every host in {again:.0f}")
        finally:
            api.stop()


if __name__ == "__main__":
    main()
