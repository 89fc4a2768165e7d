from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from memhint.bus.commands import CommandStatus, Reply
from memhint.controller.dispatch import Delivery, FleetDispatch
from memhint.objects.policy import Origin, effective
from tests.unit.api.site import Site


@pytest.fixture
def path(site: Site) -> str:
    return f"/v1/domains/{site.domain()}/policy"


def policy(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.get_json()["policy"]
    return found


def put(site: Site, path: str, values: dict[str, Any], **more: Any) -> Any:
    return site.ask("PUT", path, json={"policy": values}, **more)


def test_an_operators_wish_holds_until_it_is_taken_back(site: Site, path: str) -> None:
    before = policy(site.get(path))
    assert before["balloon"]["origin"] != "operator"
    answer = put(site, path, {"balloon": "allow", "min_mb": "512"})
    assert answer.get_json()["changes"] == [
        {"key": "min_mb", "before": before["min_mb"], "after": {"value": "512", "origin": "operator"}},
        {"key": "balloon", "before": before["balloon"], "after": {"value": "allow", "origin": "operator"}},
    ]
    assert policy(site.get(path)) == policy(answer)
    assert policy(put(site, path, {"balloon": None}))["min_mb"] == {"value": "512", "origin": "operator"}
    assert policy(site.ask("DELETE", path)) == before == policy(site.get(path))


def test_a_dry_run_tells_the_same_and_changes_nothing(site: Site, path: str) -> None:
    before = policy(site.get(path))
    dry = put(site, f"{path}?dry_run=true", {"dedup": "on", "guest_actions": "deny"}).get_json()
    assert policy(site.get(path)) == before
    levers = {one["lever"]: one for one in dry.pop("levers")}
    assert levers["cache"]["answer"] in ("refused", "unsupported")
    done = put(site, path, {"dedup": "on", "guest_actions": "deny"}).get_json()
    assert done.pop("delivery")["taken"]
    assert done == dry
    gone = site.ask("DELETE", f"{path}?dry_run=true").get_json()
    assert gone["policy"] == before
    assert policy(site.get(path)) != before


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "body.invalid"),
        ({"colour": "red"}, "body.invalid"),
        ({"dedup": 1}, "body.invalid"),
        ({"dedup": "perhaps"}, "policy.invalid"),
        ({"min_mb": "-1"}, "policy.invalid"),
        ({"dedup": "on", "min_mb": "much"}, "policy.invalid"),
    ],
)
def test_what_no_key_takes_changes_nothing(site: Site, path: str, values: dict[str, Any], told: str) -> None:
    before = policy(site.get(path))
    answer = put(site, path, values)
    assert answer.status_code == 400
    assert answer.get_json()["errors"][0]["code"] == f"memhint.{told}"
    assert policy(site.get(path)) == before


@pytest.mark.parametrize("how", ["", "?dry_run=true"])
def test_what_contradicts_an_earlier_wish_changes_nothing(site: Site, path: str, how: str) -> None:
    put(site, path, {"fast_min": "60%"})
    before = policy(site.get(path))
    answer = put(site, path + how, {"fast_max": "40%", "overcommit": "deny"})
    assert answer.status_code == 400
    assert answer.get_json()["errors"][0]["code"] == "memhint.policy.invalid"
    assert "fast_min=60% is more than fast_max=40%" in answer.get_json()["errors"][0]["detail"]
    assert policy(site.get(path)) == before


def test_who_says_which_state_he_saw_changes_that_or_nothing(site: Site, path: str) -> None:
    seen = site.get(path).headers["ETag"]
    changed = put(site, path, {"balloon": "allow"}, headers={"If-Match": seen})
    assert changed.status_code == 200
    assert changed.headers["ETag"] == site.get(path).headers["ETag"]
    late = put(site, path, {"balloon": "deny"}, headers={"If-Match": seen})
    assert late.status_code == 412
    assert policy(site.get(path))["balloon"]["value"] == "allow"
    assert site.ask("DELETE", path, headers={"If-Match": seen}).status_code == 412
    assert site.ask("DELETE", path, headers={"If-Match": "*"}).status_code == 200


@pytest.mark.parametrize("form", ['W/"{}"', '"{}-gzip"', '"{}-br"', '"{};gzip"', 'W/"{}-gzip"', '"x", W/"{}"'])
def test_a_state_that_was_seen_through_a_proxy_that_compresses_is_the_same(site: Site, path: str, form: str) -> None:
    seen = site.get(path).headers["ETag"].strip('"')
    assert put(site, path, {"balloon": "deny"}, headers={"If-Match": form.format("other")}).status_code == 412
    assert put(site, path, {"balloon": "allow"}, headers={"If-Match": form.format(seen)}).status_code == 200
    assert put(site, path, {"balloon": "deny"}, headers={"If-Match": form.format(seen)}).status_code == 412
    assert policy(site.get(path))["balloon"]["value"] == "allow"


def test_a_vm_shows_the_same_policy_in_full(site: Site, path: str) -> None:
    put(site, path, {"swap_out": "allow"})
    domain = site.get(path.removesuffix("/policy")).get_json()["domain"]
    assert domain["policy"] == policy(site.get(path))
    assert set(domain["reclaimable_by"]) <= {"reporting", "cache", "dedup", "balloon", "swap_out"}


@pytest.mark.parametrize(
    ("status", "refused"),
    [(CommandStatus.FAILED, True), (CommandStatus.UNKNOWN, True), (CommandStatus.EPOCH, False)],
)
def test_a_wish_that_its_host_refuses_is_told_so_each_time(
    site: Site, path: str, status: CommandStatus, refused: bool
) -> None:
    dispatch = FleetDispatch(site.store, lambda command: Reply(status, command.epoch or "", "no such key"))
    site.application.parts = replace(site.application.parts, inputs=None, dispatch=dispatch)
    for changes in (1, 0):
        answer = put(site, path, {"balloon": "allow"}).get_json()
        assert len(answer["changes"]) == changes
        assert (answer["delivery"]["taken"], answer["delivery"]["refused"]) == (False, refused)
        assert "no such key" in answer["delivery"]["detail"]


def test_in_a_fleet_an_operators_wish_on_the_host_is_kept_and_what_only_the_host_knows_is_unknown(
    site: Site, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but its host knows what would hold beneath a wish that was made there."""
    uuid = path.split("/")[3]
    told: list[tuple[str, Mapping[str, str | None]]] = []

    class Away:
        def set_policy(self, uuid: str, values: Mapping[str, str | None]) -> Delivery:
            told.append((uuid, values))
            return Delivery(False, "no agent listens")

    line = site.store.domains.one(uuid)
    assert line is not None
    report = site.store.reports.newest(line.host)
    assert report is not None
    domains = tuple(
        replace(one, policy=effective({Origin.OPERATOR: {"dedup": "on"}})) if one.observation.uuid == uuid else one
        for one in report.domains
    )
    site.store.reports.save(replace(report, domains=domains, sequence=report.sequence + 1))
    site.application.parts = replace(site.application.parts, inputs=None, dispatch=Away())  # type: ignore[arg-type]
    assert policy(site.get(path))["dedup"] == {"value": "on", "origin": "operator"}
    answer = put(site, path, {"dedup": None})
    assert answer.get_json()["delivery"] == {
        "taken": False,
        "detail": "no agent listens",
        "refused": False,
    }
    assert policy(answer)["dedup"] == {"value": None, "origin": None}
    assert told == [(uuid, {"dedup": None})]
    assert site.ask("DELETE", f"{path}?dry_run=true").get_json()["changes"][0]["key"] == "dedup"
