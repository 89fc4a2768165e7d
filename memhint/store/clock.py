"""The database's clock: the one that all its users share."""

from __future__ import annotations

from sqlalchemy import Connection, text

_CLOCKS = {
    "sqlite": "SELECT (julianday('now') - 2440587.5) * 86400.0",
    "postgresql": "SELECT extract(epoch FROM clock_timestamp())",
}
_MARIADB_CLOCK = "SELECT unix_timestamp(sysdate(6))"


def database_clock(connection: Connection) -> float:
    """Unix seconds by the database's clock."""
    return float(connection.execute(text(_CLOCKS.get(connection.dialect.name, _MARIADB_CLOCK))).scalar_one())
