"""Waiting until a guest does nothing."""

from __future__ import annotations

import time

from bench.cpu import cpu_seconds
from bench.harness.precondition import require

PERCENT = 20.0  # of a core: what an emulated guest that does nothing takes at most
WINDOW = 2.0
PATIENCE = 120.0


def wait_idle(pid: int) -> None:
    """Until this QEMU's guest does nothing. Raises PreconditionFailed where it never stops."""
    end = time.monotonic() + PATIENCE
    while True:
        before, began = cpu_seconds(pid), time.monotonic()
        time.sleep(WINDOW)
        percent = 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)
        if percent <= PERCENT:
            return
        require(time.monotonic() < end, f"the guest is not idle before its work: {percent:.0f} % of a core")
