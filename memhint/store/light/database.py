"""An SQLite file: transactions that several processes take turns at, and errors in the store's own types."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memhint.store.errors import StoreRefused
from memhint.store.patience import BUSY_SECONDS, Patience
from memhint.store.sqlite_file import prepare
from memhint.store.trouble import trouble

_CACHE_KIB = 256  # of each connection: SQLite's 2 MiB fill within hours and save 0.3 ms of a report with 100 VMs


class Database:
    """For several threads: each transaction has a connection to itself, and connections are used again."""

    def __init__(self, path: Path, busy: float = BUSY_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        """:param busy: seconds that a transaction waits for another process's"""
        self._path = path
        self._patience = Patience(busy, clock)
        self._idle: list[sqlite3.Connection] = []

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A transaction that writes nothing and waits for no other.

        :raises StoreError: when the database fails
        """
        with self._translated(), self._connection() as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is kept as a whole or not at all; what it reads does not change meanwhile.

        :raises StoreError: when the database fails
        """
        with self._translated(), self._connection() as connection:
            connection.execute(f"PRAGMA busy_timeout = {int(self._patience.seconds() * 1000)}")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    self._patience.in_vain()
                raise
            yield connection

    def close(self) -> None:
        """Let go of every connection."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, check_same_thread=False)
        try:
            if connection.isolation_level is not None:
                prepare(connection)
                connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.close()  # takes back what was begun
            raise
        self._idle.append(connection)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        name = f"sqlite:///{self._path}"
        try:
            yield
        except sqlite3.Error as error:
            refused = isinstance(error, (sqlite3.DataError, sqlite3.IntegrityError))
            raise trouble(name, " ".join(str(error).split()), refused=refused) from error
        except (OverflowError, UnicodeEncodeError) as error:  # a number or a text that no database keeps
            raise StoreRefused(f"{name}: {error}") from error
