"""What the log of a store says, newest first."""

from __future__ import annotations

from memhint.store import Store
from memhint.store.log import LEVER, Log, LogEntry, LogFilter


def pulls(store: Store, subject: str | None = None, limit: int = 10_000) -> tuple[LogEntry, ...]:
    """What levers did."""
    return Log(store.database).page(LogFilter(domain=subject, kind=LEVER), limit).items


def happened(store: Store, host: str | None = None) -> tuple[LogEntry, ...]:
    """What controllers saw of hosts."""
    found = Log(store.database).page(LogFilter(host=host), 10_000).items
    return tuple(one for one in found if one.kind != LEVER)
