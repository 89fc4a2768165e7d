"""Write rows whether they are there or not, many at a time, in each database's own words."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from sqlalchemy import JSON, Connection, Table, bindparam, cast, column, func, select, text

Row = Mapping[str, object]
ROWS = 10_000
"""In one statement: some megabytes, where MariaDB takes 16 unless told otherwise."""


def upsert(connection: Connection, table: Table, *rows: Row) -> None:
    """Replace the rows with the primary keys in ``rows``, or add them. All rows name the same columns."""
    if not rows:
        return
    connection.execute(_replacing(connection, table, _insert(connection, table), list(rows[0])), _plain(rows))


def upsert_many(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """The same for thousands of short rows, no two with one primary key: a single statement where that pays."""
    prepare_many(connection, table, rows)()


def prepare_many(
    connection: Connection, table: Table, rows: Sequence[Row], late: Sequence[str] = ()
) -> Callable[..., None]:
    """The same in two steps: what takes a while happens here, the rows are written by what is returned.

    :param late: columns that ``rows`` do not have; their values come with the second step, one for all rows
    """
    if not rows:
        return lambda **_: None
    if not _takes_json(connection):
        return lambda **values: upsert(connection, table, *({**row, **values} for row in rows))
    ready = [_from_json(connection, table, part, late) for part in _parts(rows)]
    statements = [
        (_replacing(connection, table, made, [*rows[0], *late]), {"rows": document}) for made, document in ready
    ]

    def write(**values: object) -> None:
        known = {_late(name): value for name, value in values.items()}
        for statement, document in statements:
            connection.execute(statement, {**document, **known})

    return write


def _parts(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[begin : begin + ROWS] for begin in range(0, len(rows), ROWS)]


def _late(name: str) -> str:
    return f"late_{name}"


def add_many(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Add those of thousands of short rows that are not there yet."""
    if not rows:
        return
    if not _takes_json(connection):
        add_new(connection, table, *rows)
        return
    for part in _parts(rows):
        made, document = _from_json(connection, table, part)
        connection.execute(_ignoring(connection, table, made), {"rows": document})


def add_new(connection: Connection, table: Table, *rows: Row) -> None:
    """Add those rows that no unique key of the table has yet, and leave the others as they are."""
    if not rows:
        return
    connection.execute(_ignoring(connection, table, _insert(connection, table)), _plain(rows))


def _ignoring(connection: Connection, table: Table, made: Any) -> Any:
    if not _is_mariadb(connection):
        return made.on_conflict_do_nothing()
    # IGNORE would also let values through that do not fit; setting a key to itself changes nothing.
    key = next(iter(table.primary_key)).name
    return made.on_duplicate_key_update({key: table.c[key]})


def _replacing(connection: Connection, table: Table, made: Any, names: Sequence[str]) -> Any:
    keys = {one.name for one in table.primary_key}
    others = [name for name in names if name not in keys]
    if _is_mariadb(connection):
        return made.on_duplicate_key_update({name: made.inserted[name] for name in others})
    return made.on_conflict_do_update(index_elements=sorted(keys), set_={name: made.excluded[name] for name in others})


def _from_json(connection: Connection, table: Table, rows: Sequence[Row], late: Sequence[str] = ()) -> tuple[Any, str]:
    """An insert of rows that come as one text: values one by one cost driver and server much more."""
    names = list(rows[0])
    if _is_mariadb(connection):
        return _from_json_table(connection, table, rows, late)
    columns = [column(name, table.c[name].type) for name in names]
    given = (
        func.json_to_recordset(cast(bindparam("rows"), _Text())).table_valued(*columns).render_derived(with_types=True)
    )
    values = (*(given.c[name] for name in names), *(bindparam(_late(name), type_=table.c[name].type) for name in late))
    made = _insert(connection, table).from_select([*names, *late], select(*values))
    return made, json.dumps(_plain(rows), separators=(",", ":"), allow_nan=False)


def _from_json_table(connection: Connection, table: Table, rows: Sequence[Row], late: Sequence[str]) -> tuple[Any, str]:
    """The same in MariaDB's words. Rows without the names of their values: it looks for each again."""
    names = list(rows[0])
    # All as texts: what does not fit is refused where it is inserted, and neither cut nor made NULL here.
    columns = ", ".join(f"`{name}` LONGTEXT PATH '$[{at}]' ERROR ON ERROR" for at, name in enumerate(names))
    added = "".join(f", :{_late(name)} AS `{name}`" for name in late)
    given = text(f"SELECT given.*{added} FROM JSON_TABLE(:rows, '$[*]' COLUMNS ({columns})) AS given")
    made = _insert(connection, table).from_select(
        [*names, *late], given.columns(*(table.c[name] for name in (*names, *late)))
    )
    values = [[row[name] for name in names] for row in rows]
    return made, json.dumps(values, separators=(",", ":"), allow_nan=False)


class _Text(JSON):
    """JSON that is a text already."""

    def bind_processor(self, dialect: Any) -> None:
        """Leave it as it is."""


def _plain(rows: Sequence[Row]) -> list[dict[str, object]]:
    return [dict(row) for row in rows]


def _is_mariadb(connection: Connection) -> bool:
    return connection.dialect.name in ("mysql", "mariadb")


def _takes_json(connection: Connection) -> bool:
    if connection.dialect.name == "postgresql":
        return True
    return bool(getattr(connection.dialect, "is_mariadb", False)) and (
        connection.dialect.server_version_info or ()
    ) >= (10, 6)


def _insert(connection: Connection, table: Table) -> Any:
    name = "mysql" if _is_mariadb(connection) else connection.dialect.name
    return import_module(f"sqlalchemy.dialects.{name}").insert(table)
