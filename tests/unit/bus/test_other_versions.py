"""Messages of other versions, as files: those of versions that landed, and one as a newer version might send it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memhint.bus.envelope import Envelope, MessageKind, decode, text_of
from memhint.bus.record import Record
from memhint.controller.intake import Intake
from memhint.controller.reconcile import Reconciler
from memhint.objects.report import Report
from tests.unit.api.site import Site

MESSAGES = Path(__file__).parent / "messages"


def message(name: str) -> Envelope:
    return decode((MESSAGES / f"{name}.json").read_bytes(), None)


@pytest.mark.parametrize("name", ["0.1-state", "0.1-record"])
def test_a_message_of_a_version_that_landed_is_understood_in_full(name: str) -> None:
    found = message(name)
    plain = json.loads((MESSAGES / f"{name}.json").read_text())
    assert "unknown" not in json.dumps(json.loads(text_of(found))["body"]).replace('"observed": "unknown"', "")
    assert json.loads(text_of(found))["body"].keys() >= plain["body"].keys()


def test_a_newer_report_keeps_its_text_and_its_numbers_and_shows_what_is_new_as_unknown() -> None:
    found, known = message("newer-state"), message("0.1-state")
    assert isinstance(found.body, Report)
    assert isinstance(known.body, Report)
    assert found.text is not None
    assert json.loads(found.text) == json.loads((MESSAGES / "newer-state.json").read_text())["body"]
    assert found.body.plan.capacity.headroom == known.body.plan.capacity.headroom
    assert str(found.body.plan.capacity.bound) == "unknown"
    first = found.body.domains[0]
    assert (str(first.observation.state), str(first.policy.qos), str(first.policy.reporting)) == ("unknown",) * 3
    assert (first.policy.minimum, first.policy.swap_out) == (0, False)


def test_a_newer_agents_events_and_requests_are_kept() -> None:
    found = message("newer-record")
    assert found.kind is MessageKind.RECORD
    assert isinstance(found.body, Record)
    assert [str(one.verdict.answer) for one in found.body.events] == ["unknown"]
    assert [(str(one.state), one.state.ended) for one in found.body.reclaims] == [("unknown", False)]


def test_a_newer_agents_messages_go_through_the_store_to_every_list(tmp_path: Path) -> None:
    site = Site(f"sqlite:///{tmp_path}/memhint.db", tmp_path, {})
    try:
        intake = Intake(site.store, 1e9, Reconciler(site.store, lambda _: None, 0.0).look)
        assert list(intake.take([message("newer-state"), message("newer-record")])) == [None, None]
        hosts = site.get("/v1/hosts").get_json()["hosts"]
        assert [(one["name"], one["bound"]) for one in hosts] == [("host-a", "unknown")]
        assert site.get("/v1/hosts/host-a").get_json()["host"]["capacity"]["bound"] == "unknown"
        domains = site.get("/v1/domains").get_json()["domains"]
        assert {one["state"] for one in domains} == {"unknown"}
        for one in domains:
            assert site.get(f"/v1/domains/{one['uuid']}").status_code == 200
        assert "unknown" in {one["answer"] for one in site.get("/v1/events").get_json()["events"]}
        for path in (
            "/v1/hosts/host-a/history",
            "/v1/reclaims",
            "/metrics",
            f"/v1/domains/{domains[0]['uuid']}/policy",
        ):
            assert site.get(path).status_code == 200
    finally:
        site.close()
