"""What libvirt's error codes say of a guest agent."""

from __future__ import annotations

from contextlib import ExitStack

import libvirt
import pytest

from memhint.guest.errors import GuestAgentAbsent, GuestConnectionLost, GuestError, GuestTimeout
from memhint.virt import agent_command
from memhint.virt.agent_command import AgentConnections, _translated

OLD_TIMEOUT = libvirt.VIR_ERR_AGENT_UNRESPONSIVE
NEW_TIMEOUT = 112  # of libvirt 11.2


class Failed(libvirt.libvirtError):
    """An error as the bindings raise it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def get_error_code(self) -> int:
        return self.code

    def get_error_message(self) -> str:
        return self.message


@pytest.mark.parametrize(
    ("code", "message", "means"),
    [
        (OLD_TIMEOUT, "Guest agent is not responding: guest agent didn't respond in time", GuestTimeout),
        (OLD_TIMEOUT, "Guest agent is not responding: QEMU guest agent is not connected", GuestAgentAbsent),
        (NEW_TIMEOUT, "guest agent didn't respond to command within '2' seconds", GuestTimeout),
        (libvirt.VIR_ERR_OPERATION_TIMEOUT, "timed out", GuestTimeout),
        (libvirt.VIR_ERR_NO_DOMAIN, "no domain with matching uuid", GuestAgentAbsent),
        (libvirt.VIR_ERR_RPC, "end of file while reading data", GuestConnectionLost),
    ],
)
def test_a_code_says_whether_the_agent_is_late_away_or_libvirt_is(
    code: int, message: str, means: type[GuestError]
) -> None:
    assert type(_translated(Failed(code, message), None)) is means


def test_all_else_is_the_agents_own_refusal() -> None:
    words = "unable to execute QEMU agent command: disabled"
    refused = _translated(Failed(libvirt.VIR_ERR_INTERNAL_ERROR, words), None)
    assert not isinstance(refused, GuestTimeout | GuestAgentAbsent | GuestConnectionLost)


class Domain:
    """A running one, whose agent's channel has a state."""

    def __init__(self, state: str | None) -> None:
        self.state = state

    def XMLDesc(self) -> str:
        if self.state is None:
            raise Failed(libvirt.VIR_ERR_NO_DOMAIN, "Domain ist nicht gefunden")
        target = f"<target type='virtio' name='org.qemu.guest_agent.0'{self.state}/>"
        return f"<domain><devices><channel type='unix'>{target}</channel></devices></domain>"


@pytest.mark.parametrize(
    ("state", "means"),
    [
        (" state='disconnected'", GuestAgentAbsent),
        (" state='connected'", GuestTimeout),
        ("", GuestTimeout),
        (None, GuestTimeout),
    ],
)
def test_where_libvirt_speaks_another_language_the_channel_says_whether_the_agent_is_away(
    state: str | None, means: type[GuestError]
) -> None:
    error = Failed(libvirt.VIR_ERR_AGENT_UNRESPONSIVE, "Gast-Agent antwortet nicht: QEMU-Gast-Agent nicht verbunden")
    assert type(_translated(error, Domain(state))) is means


class Opened:
    """A connection that is told to close."""

    def __init__(self, uri: str) -> None:
        self.closed = False
        MADE.append(self)

    def close(self) -> None:
        self.closed = True


MADE: list[Opened] = []


def test_of_the_connections_of_many_conversations_few_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_command, "Connection", Opened)
    MADE.clear()
    connections = AgentConnections("test:///", keep=3)
    for _ in range(2):
        with ExitStack() as under_way:
            for number in range(50):
                under_way.enter_context(connections.conversation(str(number)))
            assert sum(not one.closed for one in MADE) == 50
        assert sum(not one.closed for one in MADE) == 3
    assert len(MADE) == 50 + 47, "those that stayed open are used again"
    connections.close()
    assert all(one.closed for one in MADE)


def test_a_conversation_that_ends_after_all_were_closed_leaves_none_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_command, "Connection", Opened)
    MADE.clear()
    connections = AgentConnections("test:///")
    with connections.conversation("a"):
        connections.close()
    assert [one.closed for one in MADE] == [True]
