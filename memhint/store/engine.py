"""The connection to the database: transactions that several processes can take turns at, and errors in our own type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from memhint.store.errors import StoreDamaged, StoreError

BUSY_SECONDS = 10.0  # that a process waits for another one's transaction

_READS = "memhint_reads"


class Database:
    """An engine, and the two kinds of transaction on it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._reader = engine.execution_options(**{_READS: True})

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that writes nothing and waits for nobody.

        :raises StoreError: when the database fails
        """
        with _translated(self.engine.url), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is kept as a whole or not at all; what it reads, nobody else changes meanwhile (SQLite).

        :raises StoreError: when the database fails
        """
        with _translated(self.engine.url), self.engine.begin() as connection:
            yield connection

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()


def parse_url(url: str) -> URL:
    """The parts of a database URL.

    :raises StoreError: when it is none
    """
    try:
        return make_url(url)
    except ArgumentError as error:
        raise StoreError("[store] url is not a database URL: use sqlite:////absolute/path.db") from error


def connect(url: URL) -> Database:
    """An engine for a URL; nothing is opened yet.

    :raises StoreError: when there is no driver for it
    """
    try:
        if url.get_backend_name() != "sqlite":
            return Database(create_engine(url, pool_pre_ping=True))
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    except (NoSuchModuleError, ImportError) as error:
        raise StoreError(f"no driver for {shown(url)}: {error}; install it, or use sqlite:////path") from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return Database(engine)


def shown(url: URL) -> str:
    """The URL as it may be shown: without its password."""
    return url.render_as_string(hide_password=True)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver would begin transactions by itself, and only before the first write.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    # With a write-ahead log this loses the last cycles in a power cut and damages nothing.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then writes would fail at once where another one wrote in between.
    reads = connection.get_execution_options().get(_READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


@contextmanager
def _translated(url: URL) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        what = str(getattr(error, "orig", None) or error)
        if "malformed" in what or "not a database" in what:
            raise StoreDamaged(
                f"{shown(url)}: {what}; move the file away and restart the agent (operator policies are lost with it)"
            ) from error
        raise StoreError(f"{shown(url)}: {what}{_advice(what)}") from error


def _advice(what: str) -> str:
    if "locked" in what:
        return f"; another process has kept it for {BUSY_SECONDS:g} s, look for one that hangs"
    if "readonly" in what or "unable to open" in what:
        return "; run as root or as the user of the agent"
    if "no such table" in what:
        return "; restart the agent to make its tables"
    return "; see [store] url"
