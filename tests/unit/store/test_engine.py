"""How a database server is reached, and what is said of one that is none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from memhint.store.engine import ANSWER_SECONDS, _patience, connect, parse_url
from memhint.store.errors import StoreError, StoreRefused


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
