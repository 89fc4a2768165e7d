"""A server that answers and is of no use any more: it was made a standby, or what it says is no answer."""

from __future__ import annotations

import struct

import pytest
from pymysql.connections import MySQLResult
from sqlalchemy import text

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
