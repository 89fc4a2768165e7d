from __future__ import annotations

import time

from memhint.objects.promise import PromisedHour
from tests.unit.api.site import FLEET, Site

WEEK = 7 * 86400.0


def test_the_fleet_says_in_how_many_hours_promises_held_and_which_hosts_broke_one(site: Site) -> None:
    now = time.time()
    nothing = site.get("/v1/promises").get_json()["promises"]
    assert now - WEEK <= nothing.pop("since") <= time.time() - WEEK
    assert nothing == {"hours": 0, "held": 0, "hosts": 0, "broken": []}
    site.store.promises.add(FLEET.name(1), [PromisedHour(now - 3600, 7, 7), PromisedHour(now - WEEK - 10, 7, 6)], 0.0)
    site.store.promises.add(FLEET.name(2), [PromisedHour(now - 7200, 7, -1), PromisedHour(now - 3600, 7, 9)], 0.0)
    broken = [{"host": FLEET.name(2), "hours": 2, "held": 1, "lacked": 8}]
    found = site.get("/v1/promises").get_json()["promises"]
    assert (found["hours"], found["held"], found["hosts"], found["broken"]) == (3, 2, 2, broken)
    long_ago = site.get("/v1/promises?since=0").get_json()["promises"]
    assert (long_ago["hours"], len(long_ago["broken"])) == (4, 2)


def test_prometheus_is_told_the_broken_hours_of_each_host_of_the_last_day(site: Site) -> None:
    now = time.time()
    site.store.promises.add(FLEET.name(1), [PromisedHour(now - 3600, 7, 7)], 0.0)
    hours = [PromisedHour(now - 3600 * back, 7, 6) for back in (1, 2, 30)]
    site.store.promises.add(FLEET.name(2), hours, 0.0)
    text = site.get("/metrics").text
    shown = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("memhint_host_broken_promises{"))
    assert shown.pop(f'memhint_host_broken_promises{{host="{FLEET.name(2)}"}}') == "2.0"
    assert len(shown) > 1
    assert set(shown.values()) == {"0.0"}, "also of hosts of which no hour was judged yet"
