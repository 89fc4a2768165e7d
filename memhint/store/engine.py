"""The connection to the database: transactions that several processes can take turns at, and errors in our own type."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
    StatementError,
)

from memhint.store.errors import StoreError, StoreRefused
from memhint.store.patience import BUSY_SECONDS, PROBE_SECONDS, PROBES, Patience
from memhint.store.sqlite_file import prepare
from memhint.store.trouble import trouble

ANSWER_SECONDS = 60.0  # for which a database server may say nothing before the connection counts as lost
IDLE_SECONDS = 60.0  # for which this process may do nothing within a transaction before a database server ends that
LOCK_SECONDS = 60.0  # that a process waits for another one's upgrade or tidying
TRIES = 5  # of a transaction that the database ends because it stood in another one's way

_READS = "memhint_reads"
_PATIENCE = "memhint_patience"
_LOCK = 0x6D656D68  # one number and one name for what only one process may do at a time in this database
# Backslashes mean themselves in this session. The driver then only doubles quotes; else it looks at each character of a
# report by itself, which took more time than all else that a controller does. What does not fit is refused, whatever
# the server's own default is.
# Its clock is asked for by way of a local time, and those of an hour in autumn come twice where summer time ends.
_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES')"
)
# It does not write any more, though it answers: a primary that was made a standby, or a node of a cluster that has lost
# the others. PostgreSQL's SQLSTATE, MariaDB's error numbers.
_READ_ONLY = ("25006", 1290, 1792, 1836, 1047)
_DEADLOCKS = ("40001", "40P01", 1213, 1205)  # PostgreSQL's SQLSTATEs, MariaDB's error numbers
# What comes of the state that a database is in, and not of what it is told: no room, no memory, no rights, no such
# table, shutting down, another one in the way. Classes of SQLSTATEs and some whole ones; MariaDB's numbers, and those
# of its client from 2000 on.
_STATES = (
    *("08", "0A", "25", "26", "28", "3D", "40", "53", "55", "57", "58"),  # 0A: tables were upgraded meanwhile
    *("42501", "42703", "42P01", "42P05", "XX001", "XX002"),
)
_NUMBERS = {
    *(1020, 1021, 1030, 1037, 1040, 1041, 1042, 1043, 1044, 1045, 1047, 1049, 1053, 1054, 1114, 1129, 1130, 1142, 1143),
    *(1146, 1158, 1159, 1160, 1161, 1180, 1203, 1205, 1206, 1213, 1226, 1227, 1290, 1317, 1412, 1792, 1836, 1927, 1969),
    *(1105, 1223, 3024, 4031),
    *range(2000, 3000),
    *range(9000, 10_000),  # a proxy's
}
_TOLD = (1, 18, 20, 25)  # SQLite's primary codes of what it is told: ERROR, TOOBIG, MISMATCH, RANGE
# What drivers say of bytes that they do not understand, as of a proxy, and do not take for an error of the database.
_GARBLED = (struct.error, IndexError, AttributeError, AssertionError, UnicodeDecodeError)
_NO_DATABASE = (*_GARBLED, LookupError, TypeError, ValueError, RuntimeError)  # while connecting: no value is sent yet
# Others wait for what a process has locked that hangs, or whose machine is gone, and the server might wait for hours.
# Where somebody has set a limit, that one holds; MySQL and MariaDB before 10.3 have none.
_IDLE = "SET SESSION idle_transaction_timeout = IF(@@idle_transaction_timeout, @@idle_transaction_timeout, {})"

T = TypeVar("T")


class Database:
    """An engine, and the two kinds of transaction on it."""

    def __init__(self, engine: Engine, busy: float = BUSY_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """:param busy: seconds that a transaction waits for another process's, with SQLite"""
        self.engine = engine
        self._patience = Patience(busy, clock)
        self._reader = engine.execution_options(**{_READS: True})

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that writes nothing and waits for no other.

        :raises StoreError: when the database fails
        """
        with _translated(self.engine.url), _connected(self._reader) as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is kept as a whole or not at all; what it reads does not change meanwhile (SQLite).

        :raises StoreError: when the database fails
        """
        with _translated(self.engine.url), _connected(self.engine) as connection:
            connection.execution_options(**{_PATIENCE: self._patience.seconds()})
            try:
                transaction = connection.begin()
            except OperationalError as error:
                if "locked" in str(error.orig):
                    self._patience.in_vain()
                raise
            with transaction:
                yield connection

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """A write transaction that no other process has at the same time, as an upgrade of the tables needs it.

        :raises StoreError: when the database fails, or another process keeps it for too long
        """
        if self.engine.dialect.name in ("mysql", "mariadb"):
            with self._alone_on_mariadb() as connection:
                yield connection
            return
        with self.write() as connection:
            if self.engine.dialect.name != "postgresql":
                yield connection
                return
            from memhint.store.psycopg_patience import unhurried

            with unhurried(connection):
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS:.0f}s'"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
                yield connection

    @contextmanager
    def _alone_on_mariadb(self) -> Iterator[Connection]:
        # Its transactions end with every change of a table, so the lock is the session's. It is the server's too:
        # several stores on one server wait for each other, which does no harm.
        words = {"name": f"memhint-{_LOCK}", "seconds": LOCK_SECONDS}
        with _translated(self.engine.url), _connected(self.engine) as connection, _unhurried(connection):
            if connection.execute(text("SELECT GET_LOCK(:name, :seconds)"), words).scalar() != 1:
                raise StoreError(
                    f"{redacted(self.engine.url)}: another process upgrades or tidies the store; try again later"
                )
            connection.commit()
            try:
                with connection.begin():
                    yield connection
            finally:
                connection.execute(text("SELECT RELEASE_LOCK(:name)"), words)
                connection.commit()

    def transact(self, work: Callable[[Connection], T]) -> T:
        """Run a write transaction that may meet another one; it is begun again when the database ends it for that.

        :raises StoreError: when the database fails
        """
        for attempt in range(1, TRIES + 1):
            try:
                with self.write() as connection:
                    return work(connection)
            except StoreError as error:
                if attempt == TRIES or not _in_the_way(error.__cause__):
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()


def _unhurried(connection: Connection) -> AbstractContextManager[None]:
    if connection.dialect.driver != "pymysql":
        return nullcontext()
    from memhint.store.pymysql_patience import unhurried

    return unhurried(connection)


def parse_url(url: str) -> URL:
    """The parts of a database URL.

    :raises StoreError: when it is none
    """
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:  # the latter of a port
        raise StoreError("[store] url is not a database URL: use sqlite:////absolute/path.db") from error


def connect(url: URL, busy: float = BUSY_SECONDS) -> Database:
    """An engine for a URL; nothing is opened yet.

    :param busy: seconds that a transaction waits for another process's, with SQLite

    :raises StoreError: when there is no driver for it
    """
    try:
        if url.get_backend_name() != "sqlite":
            # A lock taken by a read that decides (FOR UPDATE) is enough here; the servers' stricter levels only
            # add conflicts. A connection that a restarted server closed is noticed before it is used.
            engine = create_engine(
                url, pool_pre_ping=True, isolation_level="READ COMMITTED", connect_args=_patience(url)
            )
            if url.get_driver_name() == "pymysql":
                event.listen(engine, "connect", _prepare_mariadb)
            if url.get_driver_name() == "psycopg":
                from memhint.store.psycopg_patience import be_left_after, be_patient_for

                be_patient_for(engine, ANSWER_SECONDS)
                be_left_after(engine, IDLE_SECONDS)
            event.listen(engine, "handle_error", _let_go)
            return Database(engine)
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    except (NoSuchModuleError, ImportError) as error:
        raise StoreError(f"no driver for {redacted(url)}: {error}; install it, or use sqlite:////path") from error
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return Database(engine, busy)


def redacted(url: URL) -> str:
    """The URL as it may be shown: without its password."""
    return url.render_as_string(hide_password=True)


def _patience(url: URL) -> dict[str, Any]:
    """How long a server's driver waits, in its own words, unless the URL says it."""
    driver, words = url.get_driver_name(), {}
    if driver == "psycopg":
        words = {
            "connect_timeout": int(BUSY_SECONDS),
            "tcp_user_timeout": int(ANSWER_SECONDS * 1000),
            # The one before counts only while something that was sent is not confirmed. A server that goes away while
            # it works on a statement owes an answer, and is asked whether it is still there.
            "keepalives_idle": PROBE_SECONDS,
            "keepalives_interval": PROBE_SECONDS,
            "keepalives_count": PROBES,
        }
    if driver == "pymysql":
        words = {
            "connect_timeout": int(BUSY_SECONDS),
            "read_timeout": int(ANSWER_SECONDS),
            "write_timeout": int(ANSWER_SECONDS),
        }
    return {name: value for name, value in words.items() if name not in url.query}


def _in_the_way(error: BaseException | None) -> bool:
    return isinstance(error, DBAPIError) and _is_one_of(error.orig, _DEADLOCKS)


def _may_be_told(error: SQLAlchemyError) -> bool:
    """Whether the error may come of what the database was told, so that the same again would end the same way."""
    if not isinstance(error, DBAPIError) or error.connection_invalidated:
        return False
    said = error.orig
    if (code := getattr(said, "sqlite_errorcode", None)) is not None:
        return code & 0xFF in _TOLD and "no such" not in str(said)
    if (state := getattr(said, "sqlstate", None)) is not None:
        return not str(state).startswith(_STATES)
    number = said.args[0] if said is not None and said.args else None
    return number not in _NUMBERS


def _is_one_of(said: BaseException | None, codes: tuple[str | int, ...]) -> bool:
    return getattr(said, "sqlstate", None) in codes or bool(said and said.args and said.args[0] in codes)


def _let_go(context: ExceptionContext) -> Exception | None:
    """Of connections that are of no use any more; the next transaction makes new ones, wherever the address leads."""
    said = context.original_exception
    if _is_one_of(said, _READ_ONLY):
        context.is_disconnect = True
    elif isinstance(said, _GARBLED) and context.sqlalchemy_exception is None:  # else what is sent is to blame
        context.is_disconnect = True
        return StoreError(f"the database's answer cannot be read: {said!r}")
    return None


@contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    """A connection of the pool.

    :raises StoreError: where what came at the other end of a new one is no database's answer
    """
    try:
        connection = engine.connect()
    except DBAPIError as error:  # nothing was told yet
        raise trouble(redacted(engine.url), _what(error), refused=False) from error
    except _NO_DATABASE as error:
        raise StoreError(f"{redacted(engine.url)}: no database answers there: {error!r}; see [store] url") from error
    with connection:
        yield connection


def _prepare_mariadb(connection: Any, _record: object) -> None:
    from pymysql.constants.ER import UNKNOWN_SYSTEM_VARIABLE
    from pymysql.constants.SERVER_STATUS import SERVER_STATUS_NO_BACKSLASH_ESCAPES

    with connection.cursor() as cursor:
        cursor.execute(_SESSION)
        try:
            cursor.execute(_IDLE.format(int(IDLE_SECONDS)))
        except connection.Error as error:
            if error.args[0] != UNKNOWN_SYSTEM_VARIABLE:
                raise
    # A proxy that keeps this to itself would have the driver write for one mode and the server read in the other.
    if not connection.server_status & SERVER_STATUS_NO_BACKSLASH_ESCAPES:
        raise StoreError(
            "the database did not take NO_BACKSLASH_ESCAPES for the session: name it without a proxy between"
        )


def _prepare_sqlite(connection: Any, _record: object) -> None:
    prepare(connection)


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then writes would fail at once where another one wrote in between.
    options = connection.get_execution_options()
    reads = options.get(_READS, False)
    if not reads:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(options.get(_PATIENCE, BUSY_SECONDS) * 1000)}")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


@contextmanager
def _translated(url: URL) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        what = _what(error)
        refused = isinstance(error, (DataError, IntegrityError)) or (
            not isinstance(error, DBAPIError) and isinstance(error, StatementError)
        )
        raise trouble(redacted(url), what, refused=refused, told=_may_be_told(error)) from error
    except (OverflowError, UnicodeEncodeError) as error:  # drivers say it in their own way
        raise StoreRefused(f"{redacted(url)}: {error}") from error


def _what(error: SQLAlchemyError) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())
