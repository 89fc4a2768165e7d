from __future__ import annotations

from memhint.objects.units import GIB, MIB
from tests.unit.api.site import FLEET, Site


def test_a_plan_is_what_the_hosts_lines_give_and_changes_nothing(site: Site) -> None:
    before = site.get("/v1/hosts").get_json()
    plan = site.ask("POST", "/v1/plans", json={"memory": 4 * GIB, "count": 3}).get_json()["plan"]
    assert plan["placed"] == sum(one["placed"] for one in plan["hosts"])
    lines = {one["name"]: one for one in before["hosts"]}
    size = 4 * GIB + 128 * MIB
    for one in plan["hosts"]:
        assert one["headroom"] == lines[one["name"]]["headroom"]
        assert one["slots"] == (0 if one["refusal"] else one["headroom"] // size)
    assert site.get("/v1/hosts").get_json() == before


def test_only_the_named_hosts_are_asked_and_strangers_are_told(site: Site) -> None:
    names = [FLEET.name(1), "stranger"]
    plan = site.ask("POST", "/v1/plans", json={"memory": GIB, "hosts": names}).get_json()["plan"]
    assert [one["name"] for one in plan["hosts"]] == names
    assert plan["hosts"][1]["refusal"]["reason"] == "unknown"
    assert plan["hosts"][1]["headroom"] is None
