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
from memhint.store import StoreError, open_store, psycopg_patience, revisions
from memhint.store.engine import connect
from memhint.store.errors import StoreRefused
from memhint.store.fleet import State
from tests.unit import builders
from tests.unit.builders import NOW

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


@SERVERS
def test_a_process_that_stops_within_a_transaction_holds_up_nobody_for_long(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memhint.store.engine.IDLE_SECONDS", 2.0)
    stopped, other = open_store(url), open_store(url)
    stopped.fleet.take([State(report(1), 1.0)])
    taken: list[Report] = []

    def stop() -> None:
        with stopped.database.write() as connection:
            revisions.take(connection, NOW)
            taken.extend(other.fleet.take([State(report(2), 2.0)]))
            connection.execute(text("SELECT 1"))

    began = time.monotonic()
    with pytest.raises(StoreError) as caught:
        stop()
    assert [one.sequence for one in taken] == [2]
    assert time.monotonic() - began < 30
    assert type(caught.value) is StoreError  # else what it was at would become a dead letter
    assert [one.sequence for one in stopped.fleet.take([State(report(3), 3.0)])] == [3]
    stopped.close()
    other.close()


LIMIT = {"postgresql": "SHOW idle_in_transaction_session_timeout", "mariadb": "SELECT @@idle_transaction_timeout"}
TOLD = {
    "postgresql": "options=-c+idle_in_transaction_session_timeout%3D5min+-c+geqo%3Doff",
    "mariadb": "init_command=SET+SESSION+idle_transaction_timeout=300",
}


def limit(url: str) -> str:
    database = connect(make_url(url))
    with database.read() as connection:
        found = str(connection.execute(text(LIMIT[url.partition("+")[0]])).scalar())
    database.close()
    return found


@SERVERS
def test_what_a_url_says_of_idle_transactions_holds(url: str) -> None:
    assert limit(url) in ("1min", "60")
    told = TOLD[url.partition("+")[0]]
    assert limit(f"{url}{'&' if '?' in url else '?'}{told}") in ("5min", "300")


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_what_a_url_says_of_something_else_takes_no_limit_away(url: str) -> None:
    database = connect(make_url(f"{url}&options=-c+geqo%3Doff"))
    with database.read() as connection:
        assert connection.execute(text("SHOW geqo")).scalar() == "off"
        assert connection.execute(text(LIMIT["postgresql"])).scalar() == "1min"
        assert connection.execute(text("SHOW client_connection_check_interval")).scalar() == "10s"
    database.close()


@SERVERS
def test_a_server_that_does_not_know_a_limit_goes_without_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    older = psycopg_patience._LIMITS.replace("client_connection_check_interval", "of_a_later_version")
    monkeypatch.setattr(psycopg_patience, "_LIMITS", older)
    monkeypatch.setattr("memhint.store.engine._IDLE", "SET SESSION of_another_server = {}")
    assert limit(url) in ("1min", "0")
    monkeypatch.setattr(psycopg_patience, "_LIMITS", "SELECT * FROM nothing_like_it")
    assert limit(url) == "0"


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
