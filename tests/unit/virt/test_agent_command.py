"""What libvirt's error codes say of a guest agent."""

from __future__ import annotations

import libvirt
import pytest

from memhint.guest.errors import GuestAgentAbsent, GuestConnectionLost, GuestError, GuestTimeout
from memhint.virt.agent_command import _translated

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
