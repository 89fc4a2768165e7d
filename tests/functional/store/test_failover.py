"""A server that answers and is of no use any more: it was made a standby, or what it says is no answer."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from pymysql.connections import MySQLResult
from sqlalchemy import make_url, text

from lab.servers.postgres import Postgres
from memhint.objects.report import Report
from memhint.store import StoreError, open_store
from memhint.store.errors import StoreRefused
from memhint.store.fleet import State
from tests.unit import builders

SERVERS = pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)


def report(sequence: int) -> Report:
    return builders.report(epoch="001700000000000-0000000a", sequence=sequence)


@SERVERS
def test_a_connection_to_a_primary_that_has_become_a_standby_is_let_go_of(url: str) -> None:
    store = open_store(url)
    store.fleet.take([State(report(1), 1.0)])
    with store.database.read() as connection:  # of the session: the next ones, at another server, may write
        only = "CHARACTERISTICS AS TRANSACTION" if url.startswith("postgresql") else "TRANSACTION"
        connection.execute(text(f"SET SESSION {only} READ ONLY"))
        connection.commit()
    with pytest.raises(StoreError) as caught:
        store.fleet.take([State(report(2), 2.0)])
    assert not isinstance(caught.value, StoreRefused)  # else what was sent would become a dead letter
    assert [one.sequence for one in store.fleet.take([State(report(3), 3.0)])] == [3]
    store.close()


@pytest.mark.parametrize("url", ["mariadb"], indirect=True)
@pytest.mark.parametrize("error", [struct.error("unpack requires a buffer"), IndexError("index out of range")])
def test_an_answer_that_is_none_is_the_databases_fault_and_no_messages(
    url: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(url)
    read = MySQLResult.read

    def garbled(result: MySQLResult) -> None:
        read(result)
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(MySQLResult, "read", garbled)
        with pytest.raises(StoreError) as caught:
            store.fleet.take([State(report(1), 1.0)])
    assert not isinstance(caught.value, StoreRefused)
    assert [one.sequence for one in store.fleet.take([State(report(2), 2.0)])] == [2]
    store.close()


class Proxy:
    """Before a PostgreSQL; its machine answers as long as it stands, whatever the program does."""

    def __init__(self, server: str) -> None:
        self.frozen = threading.Event()
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=ends, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # one end has gone
            while data := source.recv(65536):
                if not self.frozen.is_set():
                    target.sendall(data)
        target.close()

    def close(self) -> None:
        """No more."""
        self._listening.close()


@pytest.fixture
def proxy(postgres: Postgres) -> Iterator[Proxy]:
    made = Proxy(f"{postgres.place.path}/.s.PGSQL.5432")
    yield made
    made.close()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_server_that_hangs_in_the_middle_of_a_statement_is_not_waited_for_for_ever(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memhint.store.engine.ANSWER_SECONDS", 4.0)
    store = open_store(f"postgresql+psycopg://memhint@127.0.0.1:{proxy.port}/{make_url(url).database}")
    store.fleet.take([State(report(1), 1.0)])
    with store.database.alone() as connection:
        connection.execute(text("SELECT pg_sleep(6)"))  # an upgrade may take its time
    began, hung = time.monotonic(), []

    def take() -> None:
        try:
            store.fleet.take([State(report(2), 2.0)])
        except StoreError as error:
            hung.append(error)

    proxy.frozen.set()
    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(60)
    assert len(hung) == 1
    assert not isinstance(hung[0], StoreRefused)
    assert time.monotonic() - began < 50
    proxy.frozen.clear()
    assert [one.sequence for one in store.fleet.take([State(report(3), 3.0)])] == [3]
    store.close()
