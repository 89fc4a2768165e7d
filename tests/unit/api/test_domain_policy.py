from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from memhint.bus.commands import CommandStatus, Reply
from memhint.controller.dispatch import Delivery, FleetDispatch, WishedOnHost
from memhint.objects.gap import Gap, GapReason
from memhint.objects.policy import KEYS, Origin, Policy, careful, effective
from memhint.objects.report import POLICY
from memhint.store.tables import policy as rows
from tests.unit.api.site import Site

DENIED = {
    "overcommit": "deny", "guest_actions": "deny", "guest_unbind": "deny", "balloon": "deny", "swap_out": "deny",
    "tiering": "deny", "dedup": "off", "recycler": "off", "thp": "off",
}  # fmt: skip


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


def test_a_key_that_there_is_not_names_those_that_there_are(site: Site, path: str) -> None:
    told = put(site, path, {"foo": "bar", "dedup": "on"}).get_json()["errors"][0]["detail"]
    assert told == f"policy: 'foo' is not a member here: use {', '.join(KEYS)}"


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


def in_a_fleet(site: Site) -> tuple[FleetDispatch, list[Mapping[str, Any]]]:
    """Have the site be a fleet's, whose hosts do as they are told; the wishes that they are told, each time."""
    sent: list[Mapping[str, Any]] = []

    def ask(command: Any) -> Reply:
        sent.append(command.arguments["values"])
        return Reply(CommandStatus.DONE, command.epoch or "")

    dispatch = FleetDispatch(site.store, ask)
    site.application.parts = replace(site.application.parts, inputs=None, dispatch=dispatch)
    return dispatch, sent


def spoil(site: Site, path: str, wish: str, **columns: str) -> None:
    """Make a stored wish one that no memhint of this version has written."""
    mine = (rows.c.domain_uuid == path.split("/")[3], rows.c.key == wish)
    with site.store.database.write() as connection:
        assert connection.execute(update(rows).where(*mine).values(columns)).rowcount == 1


def denied(found: Mapping[str, Any]) -> bool:
    return {name: found[name]["value"] for name in DENIED} == DENIED


def tell(site: Site, path: str, held: Policy, *gaps: Gap) -> None:
    """The next report of the VM's host."""
    uuid = path.split("/")[3]
    line = site.store.domains.one(uuid)
    assert line is not None
    report = site.store.reports.newest(line.host)
    assert report is not None
    domains = tuple(
        replace(one, policy=held, observation=replace(one.observation, gaps=gaps))
        if one.observation.uuid == uuid
        else one
        for one in report.domains
    )
    site.store.reports.save(replace(report, domains=domains, sequence=report.sequence + 1))


@pytest.mark.parametrize("columns", [{"value": "perhaps"}, {"key": "colour"}, {"origin": "nobody"}])
def test_a_wish_that_cannot_be_read_is_shown_as_a_denial_of_everything(
    site: Site, path: str, columns: dict[str, str]
) -> None:
    put(site, path, {"guest_actions": "allow", "overcommit": "allow", "class": "guaranteed", "min_mb": "64"})
    spoil(site, path, "guest_actions", **columns)
    found = policy(site.get(path))
    assert denied(found)
    assert found["class"] == {"value": "guaranteed", "origin": "operator"}
    assert found["min_mb"] == {"value": "64", "origin": "operator"}
    domain = site.get(path.removesuffix("/policy")).get_json()["domain"]
    assert domain["policy"] == found
    (gap,) = [one for one in domain["gaps"] if one["what"] == "policy"]
    assert gap["reason"] == "malformed"
    assert next(iter(columns.values())) in gap["detail"]
    tell(site, path, careful(effective({})), Gap(POLICY, GapReason.MALFORMED, "so its host says"))
    domain = site.get(path.removesuffix("/policy")).get_json()["domain"]
    assert [one["detail"] for one in domain["gaps"] if one["what"] == "policy"] == ["so its host says"]


@pytest.mark.parametrize("again", ["allow", None])
def test_a_wish_that_cannot_be_read_ends_when_it_is_said_again(site: Site, path: str, again: str | None) -> None:
    before = policy(site.get(path))
    put(site, path, {"guest_actions": "deny"})
    spoil(site, path, "guest_actions", value="perhaps")
    other = put(site, path, {"balloon": "allow"})
    assert denied(policy(other))
    assert policy(site.get(path)) == policy(other)
    dry = put(site, f"{path}?dry_run=true", {"guest_actions": again}).get_json()
    assert denied(policy(site.get(path)))
    seen = site.get(path).headers["ETag"]
    done = put(site, path, {"guest_actions": again}, headers={"If-Match": seen})
    assert dry["policy"] == policy(done) == policy(site.get(path))
    assert dry["changes"] == done.get_json()["changes"]
    wanted = before["guest_actions"] if again is None else {"value": again, "origin": "operator"}
    assert policy(done) == {**before, "guest_actions": wanted, "balloon": {"value": "allow", "origin": "operator"}}


def test_what_holds_again_is_not_what_its_host_told_with_care(site: Site, path: str) -> None:
    put(site, path, {"guest_actions": "allow"})
    spoil(site, path, "guest_actions", value="perhaps")
    tell(site, path, careful(effective({})), Gap(POLICY, GapReason.MALFORMED, "so its host says"))
    done = policy(put(site, path, {"guest_actions": "allow"}))
    assert done["overcommit"] == {"value": "allow", "origin": "default"}
    assert done["guest_actions"] == {"value": "allow", "origin": "operator"}


@pytest.mark.parametrize("columns", [{"value": "perhaps"}, {"key": "colour"}])
def test_all_wishes_are_taken_back_though_one_cannot_be_read(site: Site, path: str, columns: dict[str, str]) -> None:
    before = policy(site.get(path))
    put(site, path, {"guest_actions": "allow"})
    spoil(site, path, "guest_actions", **columns)
    assert policy(site.ask("DELETE", f"{path}?dry_run=true")) == before
    assert denied(policy(site.get(path)))
    gone = site.ask("DELETE", path).get_json()
    assert gone["delivery"]["taken"]
    assert gone["policy"] == before == policy(site.get(path))
    assert site.store.policies.inputs(path.split("/")[3]).get(path.split("/")[3], {}).get(Origin.OPERATOR) is None
    assert "delivery" not in site.ask("DELETE", path).get_json()


def test_in_a_fleet_too_all_wishes_are_taken_back_though_one_cannot_be_read(site: Site, path: str) -> None:
    _, sent = in_a_fleet(site)
    before = policy(site.get(path))
    put(site, path, {"guest_actions": "allow", "balloon": "allow"})
    spoil(site, path, "guest_actions", key="colour")
    assert policy(site.get(path)) == before, "what its host does, which is told of all wishes or of none"
    assert policy(put(site, path, {"balloon": "deny"})) == before
    domain = site.get(path.removesuffix("/policy")).get_json()["domain"]
    assert (domain["policy"], [one["what"] for one in domain["gaps"]].count("policy")) == (before, 1)
    assert site.ask("DELETE", path).get_json()["delivery"]["taken"]
    assert sent[-1] == {}
    held = site.store.central_policies.of(path.split("/")[3])
    assert held is not None
    assert held.values == {}
    assert not site.store.policies.read().unreadable


def test_in_a_fleet_a_wish_that_its_host_cannot_read_is_not_dropped_by_a_change_of_another(
    site: Site, path: str
) -> None:
    dispatch, sent = in_a_fleet(site)
    tell(site, path, careful(effective({})), Gap(POLICY, GapReason.MALFORMED, "so its host says"))
    for question in ("", "?dry_run=true"):
        refused = put(site, path + question, {"reporting": "off"})
        assert (refused.status_code, refused.get_json()["errors"][0]["code"]) == (409, "memhint.policy.on_host")
        assert "cannot read" in refused.text
    with pytest.raises(WishedOnHost, match="cannot read"):
        dispatch.set_policy(path.split("/")[3], {"reporting": "off"})
    assert sent == []
    assert site.ask("DELETE", path).get_json()["delivery"]["taken"]
    assert sent == [{}]
