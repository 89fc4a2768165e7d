"""A signal may come while the main thread has the lock of whatever it waits for: its handler takes none."""

from __future__ import annotations

import signal
import threading

import pytest

from memhint.agent.service import AgentService
from memhint.conf.load import load


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_no_lock(number: int) -> None:
    service = AgentService(load([]))
    with service._wake._cond:  # as in the middle of a wait
        handler = threading.Thread(target=service._on_signal, args=(number, None), daemon=True)
        handler.start()
        handler.join(10.0)
        assert not handler.is_alive()
    assert (service._stop, service._reload) == (number == signal.SIGTERM, number == signal.SIGHUP)
