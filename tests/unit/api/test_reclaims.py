from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from memhint.objects.reclaim import SMALLEST, Hold, ReclaimState, Stop, released
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.store.tables import reclaim
from tests.unit.api.site import Site


def ask(site: Site, **changes: Any) -> Any:
    return site.ask("POST", "/v1/reclaims", json={"domain": site.domain(), "reason": "a test", **changes})


def test_a_request_is_queued_for_the_vms_host_and_found_again(site: Site) -> None:
    answer = ask(site, bytes=1 << 30, psi_limit=5, timeout=20, dry_run=True)
    made = answer.get_json()["reclaim"]
    assert answer.headers["Location"] == f"/v1/reclaims/{made['id']}"
    host = site.get(f"/v1/domains/{site.domain()}").get_json()["domain"]["host"]
    assert (made["domain"], made["host"], made["state"]) == (site.domain(), host, "queued")
    assert (made["bytes"], made["psi_limit"], made["timeout"], made["dry_run"]) == (1 << 30, 5, 20, True)
    assert made["by"] == "api admin"
    assert made["expires"] > made["at"]
    assert site.get(answer.headers["Location"]).get_json()["reclaim"] == made
    assert site.get("/v1/reclaims").get_json()["reclaims"] == [made]
    assert answer.get_json()["delivery"]["taken"]


def test_what_is_not_said_is_as_the_command_line_has_it(site: Site) -> None:
    made = ask(site).get_json()["reclaim"]
    assert (made["bytes"], made["psi_limit"], made["timeout"], made["dry_run"]) == (None, 10.0, 60.0, False)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"domain": "web-1"}, 400),
        ({"domain": "00000000-0000-0000-0000-000000000000"}, 404),
        ({"bytes": SMALLEST - 1}, 400),
        ({"bytes": 1e300}, 400),
        ({"bytes": 1.5}, 400),
        ({"psi_limit": 101}, 400),
        ({"timeout": 0}, 400),
        ({"hold": -1}, 400),
        ({"hold": 3601}, 400),
        ({"hold": "10m"}, 400),
        ({"reason": ""}, 400),
        ({"reason": "a\nb"}, 400),
        ({"reason": "a\u202eb"}, 400),
        ({"colour": "red"}, 400),
    ],
)
def test_what_no_guest_could_be_asked_is_refused_and_not_kept(site: Site, changes: dict[str, Any], status: int) -> None:
    assert ask(site, **changes).status_code == status
    assert site.get("/v1/reclaims").get_json()["reclaims"] == []


def end(site: Site, request: str) -> None:
    """As its agent would."""
    found = site.store.reclaims.find(request)
    assert found is not None
    verdict = Verdict(Answer.FAILED, Reason.INTERRUPTED, "taken back")
    assert site.store.reclaims.save(replace(found.reclaim, state=ReclaimState.FAILED, verdict=verdict))


def test_a_hold_is_asked_for_shown_and_ended_early(site: Site) -> None:
    made = ask(site, hold=600).get_json()["reclaim"]
    assert (made["hold"], made["held"]) == (600, None)
    assert ask(site).get_json()["reclaim"]["hold"] == 0
    found = site.store.reclaims.find(made["id"])
    assert found is not None
    held = Hold(since=10.0, until=610.0, kept=5, used=4, again=3, rounds=2)
    holding = replace(found.reclaim, state=ReclaimState.HOLDING, reclaimed=9, stop=Stop.DONE, held=held)
    assert site.store.reclaims.save(holding)
    path = f"/v1/reclaims/{made['id']}"
    shown = site.get(path).get_json()["reclaim"]
    assert (shown["state"], shown["stop"]) == ("holding", "done")
    assert shown["held"] == {
        "since": 10.0, "until": 610.0, "kept": 5, "used": 4, "again": 3, "rounds": 2, "fruitless": 0, "boot": None,
        "stop": None,
    }  # fmt: skip
    assert [one["id"] for one in site.get("/v1/reclaims?state=holding").get_json()["reclaims"]] == [made["id"]]
    assert site.ask("DELETE", path).status_code == 202
    assert site.store.reclaims.save(released(holding, Stop.INTERRUPTED, 20.0))
    assert site.get(path).get_json()["reclaim"]["held"]["stop"] == "interrupted"
    assert site.ask("DELETE", path).status_code == 409


def test_a_request_is_taken_back_until_it_has_ended(site: Site) -> None:
    path = ask(site).headers["Location"]
    for _ in range(2):
        taken = site.ask("DELETE", path)
        assert taken.status_code == 202
        assert taken.get_json()["reclaim"]["interrupted"] == "taken back by api admin"
    end(site, path.rsplit("/", 1)[1])
    again = site.ask("DELETE", path)
    assert (again.status_code, again.get_json()["errors"][0]["code"]) == (409, "memhint.reclaim.ended")
    assert site.ask("DELETE", "/v1/reclaims/none").status_code == 404


def test_requests_are_listed_in_pages_newest_first(site: Site) -> None:
    made = [ask(site).get_json()["reclaim"]["id"] for _ in range(5)]
    end(site, made[2])
    found: list[str] = []
    path = "/v1/reclaims?limit=2"
    while path:
        answer = site.get(path).get_json()
        found += [one["id"] for one in answer["reclaims"]]
        path = answer.get("next", "")
    assert found == made[::-1]
    queued = site.get("/v1/reclaims?state=queued&fields=id,state").get_json()["reclaims"]
    assert [one["id"] for one in queued] == [one for one in made[::-1] if one != made[2]]
    assert site.get(f"/v1/reclaims?domain={site.domain()}&limit=1").get_json()["next"]
    assert site.get("/v1/reclaims?host=nobody").get_json()["reclaims"] == []


@pytest.mark.parametrize("spoilt", [{0}, {2}, {4}, {1, 2}, {0, 1, 2, 3, 4}])
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_one_that_cannot_be_read_hides_no_other(site: Site, spoilt: set[int], limit: int) -> None:
    made = [ask(site).get_json()["reclaim"]["id"] for _ in range(5)]
    with site.store.database.write() as connection:
        for number in spoilt:
            connection.execute(update(reclaim).where(reclaim.c.id == made[number]).values(document="{}"))
    parts: list[list[str]] = []
    path = f"/v1/reclaims?limit={limit}"
    while path:
        answer = site.get(path).get_json()
        parts.append([one["id"] for one in answer["reclaims"]])
        path = answer.get("next", "")
    assert len(parts) == -(-5 // limit)
    found = [one for part in parts for one in part]
    assert found == [one for number, one in reversed(list(enumerate(made))) if number not in spoilt]
