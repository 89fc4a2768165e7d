"""The lock of one agent per host, and who cannot keep it from an agent."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Iterator

import pytest

from memhint.agent import lock as module
from memhint.agent.lock import AlreadyRunning, HostLock, is_held
from memhint.kernel.socket_owners import socket_owners

STRANGER = 65534


@pytest.fixture
def host() -> str:
    return f"host-{uuid.uuid4()}"


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Names that another user has taken: for the kernel they are this process's, as only root can be somebody else."""
    names: set[str] = set()
    mine = socket_owners

    def owners() -> dict[bytes, int | None]:
        return {key: STRANGER if os.fsdecode(key) in names else uid for key, uid in mine().items()}

    monkeypatch.setattr(module, "socket_owners", owners)
    return names


def taken(name: str) -> socket.socket:
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    held.bind(name)
    return held


def test_who_looks_sees_an_agent_and_is_not_in_its_way(host: str) -> None:
    lock = HostLock(host)
    assert not is_held(host)
    lock.take()
    assert is_held(host)
    assert not is_held(host[:-1])
    with pytest.raises(AlreadyRunning):
        HostLock(host).take()
    lock.release()
    assert not is_held(host)


def test_another_user_keeps_no_agent_from_running(
    host: str, stranger: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    name = f"\0memhint-agent/{host}"
    stranger.add(name)
    with taken(name) as impostor:
        assert not is_held(host)
        lock = HostLock(host)
        with caplog.at_level(logging.WARNING):
            lock.take()
        assert f"user {STRANGER} has taken" in caplog.text
        assert is_held(host)
        with pytest.raises(AlreadyRunning, match="stop it first"):
            HostLock(host).take()
        # Who lets go of the first name leaves it to nobody while an agent has a spare one.
        impostor.close()
        stranger.clear()
        with pytest.raises(AlreadyRunning):
            HostLock(host).take()
        lock.release()
    HostLock(host).take()


def test_a_host_may_have_a_long_name(host: str) -> None:
    first, second = HostLock(host + "é" * 110 + "1"), HostLock(host + "é" * 110 + "2")
    first.take()
    second.take()
    assert is_held(host + "é" * 110 + "2")
    with pytest.raises(AlreadyRunning):
        HostLock(host + "é" * 110 + "1").take()
    first.release()
    second.release()


def test_where_the_kernel_does_not_tell_whose_it_is_a_name_that_is_taken_is_an_agents(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent() -> dict[bytes, int | None]:
        raise PermissionError

    monkeypatch.setattr(module, "socket_owners", silent)
    lock = HostLock(host)
    lock.take()
    with pytest.raises(AlreadyRunning):
        HostLock(host).take()
    assert not is_held(host)  # as far as can be told
    lock.release()


def test_a_socket_is_its_makers_also_where_root_has_it_now(host: str) -> None:
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    name = f"\0memhint-agent/{host}"
    os.seteuid(STRANGER)
    try:
        held = taken(name)
    finally:
        os.seteuid(0)
    with held:
        assert socket_owners()[os.fsencode(name)] == STRANGER
        lock = HostLock(host)
        lock.take()
        lock.release()
