"""The database's clock: the one that all its users share.

It may be years ahead for a while, and set back then. What was kept by it meanwhile lies in the future, and counts for
nothing: else all would wait until that time has come.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, text

AHEAD = 86_400.0
"""Seconds by which a moment that a host tells may be ahead: what is kept of a later one would not grow old.

Nor may it lie as far back: of a host whose clock is wrong VMs would look older than they are.
"""

_CLOCKS = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}
_MARIADB_CLOCK = "SELECT unix_timestamp(sysdate(6))"


def database_clock(connection: Connection) -> float:
    """Unix seconds by the database's clock."""
    return float(connection.execute(text(_CLOCKS.get(connection.dialect.name, _MARIADB_CLOCK))).scalar_one())


def goes_on(until: float, now: float, longest: float) -> bool:
    """Whether a turn is not over. One that would last longer than ``longest`` is of a clock that was wrong."""
    return now < until <= now + longest


def is_past(at: ColumnElement[float], now: float, seconds: float | ColumnElement[float]) -> ColumnElement[bool]:
    """Whether that was more than ``seconds`` ago, or by a clock that was as far ahead."""
    return (at < now - seconds) | (at > now + seconds)
