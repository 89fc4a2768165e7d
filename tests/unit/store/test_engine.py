"""How a database server is reached, and what is said of one that is none."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from memhint.store.engine import ANSWER_SECONDS, _patience, _translated, connect, parse_url
from memhint.store.errors import StoreError, StoreFailed, StoreRefused


def test_a_server_that_goes_away_in_the_middle_of_a_statement_is_noticed() -> None:
    words = _patience(parse_url("postgresql+psycopg://u:p@db.example/memhint"))
    asked_for = words["keepalives_idle"] + words["keepalives_interval"] * words["keepalives_count"]
    assert 0 < asked_for <= ANSWER_SECONDS
    assert words["tcp_user_timeout"] == ANSWER_SECONDS * 1000


def test_what_a_url_says_itself_holds() -> None:
    words = _patience(parse_url("postgresql+psycopg://u:p@db.example/memhint?keepalives_idle=5&connect_timeout=1"))
    assert not {"keepalives_idle", "connect_timeout"} & set(words)


@pytest.fixture
def proxy(request: pytest.FixtureRequest) -> Iterator[int]:
    """The port of something that says a few bytes to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def say() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.sendall(request.param)
                    client.recv(1)

        thread = threading.Thread(target=say)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "proxy",
    [
        b"\0\0\0\0",
        b"\1\0\0\0\x0a",
        b"\5\0\0\0\x0a5.5\0",
        b"\2\0\0\0\xff\x10",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    indirect=True,
)
def test_what_is_no_database_is_not_taken_for_a_value_that_it_refuses(proxy: int) -> None:
    database = connect(parse_url(f"mariadb+pymysql://u:secret@127.0.0.1:{proxy}/memhint"))
    with pytest.raises(StoreError) as caught, database.write() as connection:
        connection.execute(text("SELECT 1"))
    assert not isinstance(caught.value, StoreRefused)
    assert "secret" not in str(caught.value)
    database.close()


class Said(Exception):
    """What a driver says."""

    def __init__(self, *words: object, state: str | None = None) -> None:
        super().__init__(*words)
        self.sqlstate = state


def raised(said: Exception, *, lost: bool = False) -> StoreError:
    with pytest.raises(StoreError) as caught, _translated(parse_url("sqlite:///x")):
        raise OperationalError("SELECT 1", {}, said, connection_invalidated=lost)
    return caught.value


@pytest.mark.parametrize(
    "said",
    [
        Said("sending query failed: number of parameters must be between 0 and 65535"),  # psycopg's own
        Said("stack depth limit exceeded", state="54001"),
        Said("invalid memory alloc request size", state="XX000"),
        Said(1366, "Incorrect string value"),
        Said(1390, "Prepared statement contains too many placeholders"),
    ],
)
def test_an_error_that_what_was_told_may_explain_is_told_from_one_of_the_database(said: Said) -> None:
    assert type(raised(said)) is StoreFailed


@pytest.mark.parametrize(
    "said",
    [
        Said("deadlock detected", state="40P01"),
        Said("could not serialize access", state="40001"),
        Said("canceling statement due to lock timeout", state="55P03"),
        Said("canceling statement due to statement timeout", state="57014"),
        Said("no space left on device", state="53100"),
        Said("the database system is shutting down", state="57P03"),
        Said("permission denied", state="42501"),
        Said("relation does not exist", state="42P01"),
        Said("cached plan must not change result type", state="0A000"),
        Said("invalid page in block 7", state="XX001"),
        Said(9001, "Max connect timeout reached while reaching hostgroup"),
        Said(1205, "Lock wait timeout exceeded"),
        Said(1213, "Deadlock found"),
        Said(1114, "The table is full"),
        Said(2013, "Lost connection"),
    ],
)
def test_an_error_of_the_database_is_no_messages(said: Said) -> None:
    assert type(raised(said)) is StoreError


def test_a_connection_that_was_lost_is_no_messages() -> None:
    assert type(raised(Said("server closed the connection unexpectedly"), lost=True)) is StoreError


def test_a_file_that_another_one_keeps_is_no_messages_and_a_statement_that_is_too_long_may_be(tmp_path: Path) -> None:
    url = parse_url(f"sqlite:///{tmp_path}/x.db")
    database, other = connect(url, busy=0.01), connect(url)
    with other.write(), pytest.raises(StoreError, match="locked") as caught, database.write():
        pass
    assert type(caught.value) is StoreError
    with pytest.raises(StoreError, match="no such table") as caught, database.read() as connection:
        connection.execute(text("SELECT * FROM absent"))
    assert type(caught.value) is StoreError
    with database.engine.connect() as connection:
        connection.connection.driver_connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 1)
    with pytest.raises(StoreFailed, match="variable"), database.read() as connection:
        connection.execute(text("SELECT :one + :two"), {"one": 1, "two": 2})
    for one in (database, other):
        one.close()


def test_a_database_that_nobody_reaches_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    database = connect(parse_url(f"postgresql+psycopg://u:p@127.0.0.1:{port}/memhint"))
    with pytest.raises(StoreError) as caught, database.write() as connection:
        connection.execute(text("SELECT 1"))
    assert type(caught.value) is StoreError
