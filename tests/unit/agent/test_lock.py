from __future__ import annotations

import uuid

import pytest

from memhint.agent.lock import AlreadyRunning, HostLock, is_held


def test_who_looks_sees_an_agent_and_is_not_in_its_way() -> None:
    host = f"host-{uuid.uuid4()}"
    lock = HostLock(host)
    assert not is_held(host)
    lock.take()
    assert is_held(host)
    assert not is_held(host[:-1])
    with pytest.raises(AlreadyRunning):
        HostLock(host).take()
    lock.release()
    assert not is_held(host)
