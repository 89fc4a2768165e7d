"""A signal may come while the main thread has the lock of whatever it waits for: its handler takes none."""

from __future__ import annotations

import signal
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memhint.agent import service as services
from memhint.agent.service import AgentService
from memhint.conf.load import load
from memhint.store.host_store import HostStore


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_no_lock(number: int) -> None:
    service = AgentService(load([]))
    with service._wake._cond:  # as in the middle of a wait
        handler = threading.Thread(target=service._on_signal, args=(number, None), daemon=True)
        handler.start()
        handler.join(10.0)
        assert not handler.is_alive()
    assert (service._stop, service._reload) == (number == signal.SIGTERM, number == signal.SIGHUP)


def test_an_agent_lets_go_of_everything_whatever_comes_of_putting_back(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    def undo(deadline: float) -> list[str]:
        raise RuntimeError("a defect")

    agent = SimpleNamespace(cycle=SimpleNamespace(undo=undo), close=lambda: closed.append(True))
    service = AgentService(load([]))
    monkeypatch.setattr(service, "_build", lambda *_: cast("Any", agent))
    monkeypatch.setattr(services, "host_stops", lambda: False)
    service._on_signal(signal.SIGTERM, None)
    with pytest.raises(RuntimeError, match="a defect"):
        service._serve(cast("HostStore", None))
    assert closed == [True]


def test_an_event_in_the_middle_of_a_look_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer after the last cycle than events are spaced, and set between two questions whether it is."""
    service = AgentService(load([]))
    answers = iter([False, True, True])
    monkeypatch.setattr(service, "_wake", SimpleNamespace(is_set=lambda: next(answers), wait=lambda _: True))
    service._rest(time.monotonic() - 3.0, lambda: False)
