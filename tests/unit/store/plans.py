"""How a database would find what a call asks it for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import event

from memhint.store.engine import Database


def plans_of(database: Database, call: Callable[[], object], kind: str = "SELECT") -> str:
    """The plan of every statement of this kind in a call, in the database's words."""
    said: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        said.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        call()
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    word = "EXPLAIN QUERY PLAN" if database.engine.dialect.name == "sqlite" else "EXPLAIN"
    with database.read() as connection:
        asked = [connection.exec_driver_sql(f"{word} {one}", values) for one, values in said if one.startswith(kind)]
        return "\n".join(str(tuple(row)) for rows in asked for row in rows)
