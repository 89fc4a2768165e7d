"""How a connection to an SQLite file is prepared, so that several processes can work on it."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from memhint.store.patience import BUSY_SECONDS

_AGAIN = 0.02  # seconds between two tries to switch a new file to its write-ahead log


def prepare(connection: Any) -> None:
    """Leave transactions to who uses it, and have readers and a writer work side by side."""
    # The driver would begin transactions by itself, and only before the first write.
    connection.isolation_level = None
    cursor = connection.cursor()
    _write_ahead(cursor)
    # With a write-ahead log this loses the last cycles in a power cut and damages nothing.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _write_ahead(cursor: Any) -> None:
    # A new file is changed by this. Where two processes do that at once, SQLite has the second one fail instead of
    # letting it wait as long as the connection says.
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
        time.sleep(_AGAIN)
