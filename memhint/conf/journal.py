"""What is logged to systemd's journal has its priority in front, so that ``journalctl -p err`` finds it."""

from __future__ import annotations

import logging
import os

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


def read_by_journal(handler: logging.Handler) -> bool:
    """Whether the journal reads what a handler writes: systemd names the stream that it gave to the service."""
    try:
        seen = os.fstat(handler.stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False  # no stream, none of the kernel's, or closed
    return os.environ.get("JOURNAL_STREAM") == f"{seen.st_dev}:{seen.st_ino}"


def with_priority(text: str, level: int) -> str:
    """The same, each line with the prefix that sd-daemon(3) defines: the journal takes each for an entry."""
    priority = next((number for least, number in _PRIORITIES if level >= least), _DEBUG)
    return "\n".join(f"<{priority}>{line}" for line in text.split("\n"))
