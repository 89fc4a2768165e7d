"""A store that another process keeps: what waits in vain does so once, not once for each transaction."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from memhint.store.engine import Database, connect, parse_url
from memhint.store.errors import StoreError

BUSY = 3.0  # seconds that one transaction waits: much more than three take that do not, on a busy machine too


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "memhint.db"
    database = connect(parse_url(f"sqlite:///{file}"))
    with database.write() as connection:
        connection.execute(text("CREATE TABLE some (one INTEGER)"))
    database.close()
    return file


def write(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO some VALUES (1)"))


def test_only_the_first_transaction_waits_for_who_keeps_the_store(file: Path) -> None:
    clock = [0.0]
    inner = connect(parse_url(f"sqlite:///{file}"), busy=BUSY)
    database = Database(inner.engine, BUSY, lambda: clock[0])
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waited = []
    for at in (0.0, 1.0, 1.0, 1.0, 1.5 * BUSY):
        clock[0] = at
        began = time.monotonic()
        with pytest.raises(StoreError, match="another process keeps it"):
            write(database)
        waited.append(time.monotonic() - began)
    assert waited[0] > 0.9 * BUSY
    assert sum(waited[1:4]) < 0.9 * BUSY
    assert waited[4] > 0.9 * BUSY  # the time is over, and it may be worth waiting again
    other.execute("COMMIT")
    write(database)
    other.close()
    database.close()
