"""Waiting for a condition, with a deadline and a message that says what was seen instead."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lab.errors import Timeout

T = TypeVar("T")


def wait_for(
    predicate: Callable[[], T],
    deadline: float,
    what: str,
    interval: float = 0.05,
    seen: Callable[[], str] | None = None,
) -> T:
    """The first true value of `predicate`, looked at every `interval` seconds for at most `deadline` seconds.

    The last look begins after the deadline: whoever was stopped for seconds looks once more at what has become of it.

    :param seen: says what there was instead, where the false value does not
    :raises Timeout: with what was seen last
    """
    end = time.monotonic() + deadline
    while True:
        over = time.monotonic() > end
        found = predicate()
        if found:
            return found
        if over:
            raise Timeout(f"waited {deadline:g} s for {what}; last seen: {seen() if seen else repr(found)}")
        time.sleep(interval)


def listens(path: Path) -> bool:
    """Whether somebody accepts clients at this Unix socket: its name is there a moment before."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
    return True
