"""A rolling upgrade in both directions: this version's messages and those of the last one that landed, as files.

`wire.py` tells how the files are made. Those of a version that landed do not change any more.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import memhint.objects
from memhint.agent.commands import Commands
from memhint.bus.commands import CommandStatus, _reply, answer
from memhint.bus.envelope import Envelope, decode, decode_text
from memhint.bus.errors import BusError, Poison
from memhint.bus.record import Record
from memhint.controller.intake import Intake
from memhint.controller.reconcile import Reconciler
from memhint.objects.policy import Origin
from memhint.objects.report import Report
from memhint.store import Store, codec, open_store
from tests.unit import builders
from tests.unit.api.site import Site
from tests.unit.bus import wire

MESSAGES = Path(__file__).parent / "messages"
LANDED = ("958003c",)
VERSIONS = (*LANDED, "present")
ANSWERS = ("answer-done", "answer-epoch", "answer-failed", "answer-unknown")

# Words that controllers of 958003c refuse a whole report for: doc/install.md has controllers upgraded first.
NEWER = {
    "Reason": {
        "guest_blocked",
        "no_blocks",
        "pages_break",
        "turn",
        "one_node",
        "node_full",
        "node_gone",
        "limits",
        "no_reading",
        "partition",
    },
    "LeverName": {"recycler", "khugepaged", "thp", "tiering"},
    "Rung": {"recycler"},
    "DemandReason": {"growth"},
    "GapReason": {"conflict"},
}

RENAMED = {"Way": "Mechanism"}
"""Enumerations that have another name in the code since; their words are what is sent."""


def text(version: str, name: str) -> bytes:
    return (MESSAGES / version / f"{name}.json").read_bytes()


def message(version: str, name: str, **changes: object) -> Envelope:
    return decode(json.dumps({**json.loads(text(version, name)), **changes}).encode(), None)


def shape(plain: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Every member of a message with the kind of its value; null tells none."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from shape(value, f"{place}.{name}")
    elif isinstance(plain, list):
        for value in plain:
            yield from shape(value, f"{place}[]")
    yield place, "number" if type(plain) in (int, float) else type(plain).__name__


def test_the_files_are_what_this_version_sends() -> None:
    """Where this fails the wire has changed: make the files anew if the tests below still hold."""
    made = {name: json.loads(one) for name, one in wire.messages().items()}
    assert made == {one.stem: json.loads(one.read_text()) for one in (MESSAGES / "present").glob("*.json")}


@pytest.mark.parametrize("version", LANDED)
@pytest.mark.parametrize("name", [*wire.COMMANDS, *ANSWERS, "state", "record"])
def test_what_an_earlier_version_reads_is_still_sent(version: str, name: str) -> None:
    before, now = json.loads(text(version, name)), json.loads(wire.messages()[name])
    assert now["memhint"] == before["memhint"]
    missing = {one for one in set(shape(before)) - set(shape(now)) if one[1] != "NoneType"}
    assert not missing


@pytest.mark.parametrize("version", LANDED)
def test_no_word_of_an_earlier_version_is_unknown_and_each_that_it_refuses_is_meant(version: str) -> None:
    """Controllers of 958003c refuse a report with a word that they do not know. Later ones show it as unknown."""
    words = json.loads(text(version, "words"))
    modules = [
        importlib.import_module(f"memhint.objects.{one.name}") for one in pkgutil.iter_modules(memhint.objects.__path__)
    ]
    now: dict[str, set[str]] = {}
    for module in modules:
        for name, kind in vars(module).items():
            if (
                isinstance(kind, type)
                and issubclass(kind, StrEnum)
                and kind.__module__ == module.__name__
                and len(kind)
            ):
                now[name] = {str(one) for one in kind}
    known = {name: now.get(RENAMED.get(name, name), set()) for name in words}
    assert {name: set(one) - known[name] for name, one in words.items() if not set(one) <= known[name]} == {}
    if version == "958003c":
        assert {name: known[name] - set(one) for name, one in words.items() if known[name] - set(one)} == NEWER


@pytest.mark.parametrize("version", VERSIONS)
def test_agents_of_each_version_report_to_this_controller(version: str, tmp_path: Path) -> None:
    site = Site(f"sqlite:///{tmp_path}/memhint.db", tmp_path, {})
    try:
        intake = Intake(site.store, 1e9, Reconciler(site.store, lambda _: None, 0.0).look)
        state, record = message(version, "state"), message(version, "record")
        assert isinstance(state.body, Report)
        assert isinstance(record.body, Record)
        assert list(intake.take([state, record])) == [None, None]
        (host,) = site.get("/v1/hosts").get_json()["hosts"]
        assert (host["name"], host["headroom"], host["agent"]) == ("host-a", state.body.plan.capacity.headroom, "0.1")
        domains = site.get("/v1/domains").get_json()["domains"]
        assert {one["uuid"] for one in domains} == {one.observation.uuid for one in state.body.domains}
        assert [one["answer"] for one in site.get("/v1/events").get_json()["events"] if one["kind"] == "lever"] == [
            str(record.body.events[0].verdict.answer)
        ]
        for path in ("/v1/hosts/host-a", f"/v1/domains/{domains[0]['uuid']}", "/v1/hosts/host-a/history", "/metrics"):
            assert site.get(path).status_code == 200
        assert "unknown" not in {host["bound"], host["state"], *(one["state"] for one in domains)}
    finally:
        site.close()


def test_an_agent_that_is_upgraded_and_back_again_is_one_host(tmp_path: Path) -> None:
    site = Site(f"sqlite:///{tmp_path}/memhint.db", tmp_path, {})
    try:
        for number, version in enumerate(("958003c", "present", "newer", "958003c")):
            life = f"00170000000{number}000-0000000a"
            if version == "newer":
                plain = json.loads((MESSAGES / "newer-state.json").read_text())
            else:
                plain = json.loads(text(version, "state"))
            plain["epoch"] = plain["body"]["epoch"] = life
            intake = Intake(site.store, 1e9)
            assert list(intake.take([decode(json.dumps(plain).encode(), None)])) == [None]
            (host,) = site.get("/v1/hosts").get_json()["hosts"]
            assert (host["epoch"], host["state"] != "silent") == (life, True)
        assert host["bound"] == "back"
    finally:
        site.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[tuple[Store, Commands]]:
    store = open_store(f"sqlite:///{tmp_path}/agent.db", host="host-a")
    yield store, Commands(store, lambda: None, lambda: builders.NOW)
    store.close()


def carried_out(commands: Commands, body: bytes) -> CommandStatus:
    return _reply(answer(body, None, wire.EPOCH, commands.handlers), None).outcome


@pytest.mark.parametrize("version", VERSIONS)
def test_controllers_of_each_version_command_this_agent(version: str, agent: tuple[Store, Commands]) -> None:
    store, commands = agent
    assert [carried_out(commands, text(version, name)) for name in wire.COMMANDS] == [CommandStatus.DONE] * len(
        wire.COMMANDS
    )
    assert store.policies.inputs()[builders.WEB][Origin.OPERATOR] == {"reporting": "off"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ANSWERS)
def test_this_controller_reads_the_answers_of_agents_of_each_version(version: str, name: str) -> None:
    assert str(_reply(text(version, name), None).outcome) == name.removeprefix("answer-")


def test_a_newer_controllers_commands_are_carried_out_or_refused_as_a_whole(agent: tuple[Store, Commands]) -> None:
    store, commands = agent

    def newer(name: str, **changes: Any) -> bytes:
        plain = json.loads(text("present", name))
        plain["new_member"] = {"of": ["a", 1]}
        plain["arguments"] |= {"new_member": [1], **changes}
        return json.dumps(plain).encode()

    request = json.loads(text("present", "reclaim"))["arguments"]["request"]
    assert carried_out(commands, newer("policy")) is CommandStatus.DONE
    assert carried_out(commands, newer("reclaim", request={**request, "new_member": 1})) is CommandStatus.DONE
    # A wish of which a part is not understood is not half a wish.
    assert carried_out(commands, newer("policy", values={"new_key": "on", "reporting": "on"})) is CommandStatus.FAILED
    assert store.policies.inputs()[builders.WEB][Origin.OPERATOR] == {"reporting": "off"}
    assert carried_out(commands, wire._command("new_command", {}, wire.EPOCH).encode()) is CommandStatus.UNKNOWN


def test_an_answer_that_only_a_newer_agent_knows_is_an_error_of_that_question() -> None:
    with pytest.raises(BusError, match="cannot be read"):
        _reply(json.dumps({**json.loads(text("present", "answer-done")), "outcome": "new_outcome"}).encode(), None)
    newer = {**json.loads(text("present", "answer-done")), "new_member": 1}
    assert _reply(json.dumps(newer).encode(), None).outcome is CommandStatus.DONE


@pytest.mark.parametrize(
    "changes", [{"kind": "new_kind"}, {"memhint": 2}, {"body": [1]}, {"body": {"new_body": 1}}, {"clock": "12:00"}]
)
def test_a_message_of_a_kind_or_envelope_that_only_a_newer_version_knows_is_refused_by_itself(
    changes: dict[str, object],
) -> None:
    plain = {**json.loads(text("present", "state")), **changes}
    with pytest.raises(Poison):
        decode_text(json.dumps(plain).encode())
    message("present", "state", new_member={"of": 1})  # more in the envelope is no other envelope


@pytest.mark.parametrize("version", VERSIONS)
def test_a_report_that_another_version_has_stored_is_read(version: str, tmp_path: Path) -> None:
    """The store is upgraded before or after those who write to it."""
    found = codec.parse(json.dumps(json.loads(text(version, "state"))["body"]))
    assert (found.host, len(found.domains)) == ("host-a", 3)
