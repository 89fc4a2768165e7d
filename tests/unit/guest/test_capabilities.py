from __future__ import annotations

import json

import pytest
from hypothesis import given

from memhint.guest.capabilities import read_capabilities
from memhint.guest.errors import (
    GuestAnswerMalformed,
    GuestCommandBlocked,
    GuestCommandFailed,
    GuestCommandMissing,
    GuestError,
    GuestTimeout,
)
from memhint.guest.files import READ_COMMANDS, WRITE_COMMANDS
from memhint.guest.protocol import GuestAgent
from memhint.objects.gap import GapReason

from .fake_agent import FakeAgent
from .strategies import raw_answers

BOOT_ID = "0a1b2c3d-0000-4000-8000-0123456789ab"
BOOT_FILE = "/proc/sys/kernel/random/boot_id"


def guest(**faults: object) -> FakeAgent:
    return FakeAgent({BOOT_FILE: BOOT_ID + "\n"}, **faults)  # type: ignore[arg-type]


def test_a_stock_agent_tells_its_version_commands_kernel_and_boot() -> None:
    capabilities = read_capabilities(GuestAgent(guest()))
    assert capabilities.version == "10.0.13"
    assert capabilities.release == "6.12.117+deb12-cloud-amd64"
    assert capabilities.boot_id == BOOT_ID
    assert capabilities.lacks(READ_COMMANDS | WRITE_COMMANDS) == frozenset()
    assert capabilities.gaps == ()


def test_blocked_commands_are_lacking_and_are_not_tried() -> None:
    agent = guest(blocked={"guest-file-read", "guest-get-osinfo"})
    capabilities = read_capabilities(GuestAgent(agent))
    assert capabilities.lacks(READ_COMMANDS) == {"guest-file-read"}
    assert [(gap.what, gap.reason) for gap in capabilities.gaps] == [
        ("release", GapReason.UNSUPPORTED),
        ("boot_id", GapReason.UNSUPPORTED),
    ]
    assert agent.commands() == ["guest-info"]


def test_what_is_blocked_is_told_from_what_the_agent_never_had() -> None:
    capabilities = read_capabilities(GuestAgent(guest(blocked={"guest-file-read", "guest-file-open"})))
    assert capabilities.blocked == {"guest-file-read", "guest-file-open"}
    blocked, unknown = capabilities.refusal(READ_COMMANDS), capabilities.refusal(frozenset({"guest-get-meminfo"}))
    assert isinstance(blocked, GuestCommandBlocked)
    assert "blocked by the guest's administrator: allow guest-file-open, guest-file-read" in blocked.detail
    assert type(unknown) is GuestCommandMissing
    assert "administrator" not in unknown.detail
    assert capabilities.refusal(frozenset({"guest-info"})) is None


def frozen_guest(status: str) -> FakeAgent:
    """An agent as it is while file systems are frozen: it disables nearly everything, and says so."""
    agent = guest(blocked={"guest-get-osinfo", *READ_COMMANDS, *WRITE_COMMANDS})

    def mangle(command: str, answer: str) -> str:
        if command == "guest-info":
            info = json.loads(answer)
            info["return"]["supported_commands"].append({"name": "guest-fsfreeze-status", "enabled": True})
            return json.dumps(info)
        return json.dumps({"return": status}) if command == "guest-fsfreeze-status" else answer

    agent.mangle = mangle
    return agent


def test_a_frozen_guest_is_asked_again_later_and_nobody_is_blamed() -> None:
    with pytest.raises(GuestCommandFailed, match="frozen"):
        read_capabilities(GuestAgent(frozen_guest("frozen")))
    assert read_capabilities(GuestAgent(frozen_guest("thawed"))).blocked >= READ_COMMANDS


def test_a_kernel_release_that_is_nonsense_is_a_gap() -> None:
    capabilities = read_capabilities(GuestAgent(guest(release="6.1\n\x1b[2J")))
    assert capabilities.release is None
    assert [(gap.what, gap.reason) for gap in capabilities.gaps] == [("release", GapReason.MALFORMED)]


@pytest.mark.parametrize("text", ["", "nonsense", BOOT_ID.replace("a", "/"), BOOT_ID * 2])
def test_a_boot_id_that_is_no_uuid_is_a_gap(text: str) -> None:
    capabilities = read_capabilities(GuestAgent(FakeAgent({BOOT_FILE: text})))
    assert capabilities.boot_id is None
    assert [(gap.what, gap.reason) for gap in capabilities.gaps] == [("boot_id", GapReason.MALFORMED)]


def test_a_guest_without_a_boot_id_leaves_a_gap() -> None:
    capabilities = read_capabilities(GuestAgent(FakeAgent()))
    assert [(gap.what, gap.reason) for gap in capabilities.gaps] == [("boot_id", GapReason.UNREADABLE)]


@pytest.mark.parametrize("command", ["guest-info", "guest-get-osinfo", "guest-file-open", "guest-file-read"])
def test_a_guest_that_falls_silent_is_silent_not_incapable(command: str) -> None:
    with pytest.raises(GuestTimeout):
        read_capabilities(GuestAgent(guest(hang_at={command})))


def test_an_agent_with_absurdly_many_commands_is_malformed() -> None:
    item = {"name": "x", "enabled": True}
    answer = json.dumps({"return": {"version": "1", "supported_commands": [item] * 513}})
    with pytest.raises(GuestAnswerMalformed, match="more than 512"):
        read_capabilities(GuestAgent(lambda request, timeout: answer))


def test_a_command_without_a_sane_name_is_named_by_its_place() -> None:
    answer = json.dumps({"return": {"version": "1", "supported_commands": [{"name": "x" * 65, "enabled": True}]}})
    with pytest.raises(GuestAnswerMalformed, match=r"supported_commands\[0\]\.name"):
        read_capabilities(GuestAgent(lambda request, timeout: answer))


@given(raw_answers)
def test_any_answer_gives_capabilities_or_a_guest_error(raw: str) -> None:
    try:
        capabilities = read_capabilities(GuestAgent(lambda request, timeout: raw))
    except GuestError:
        return
    assert all(len(name) <= 64 for name in capabilities.commands)
