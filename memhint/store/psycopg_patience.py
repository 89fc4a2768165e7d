"""An end to waiting for PostgreSQL: psycopg itself waits for a statement's answer for as long as the connection stands.

A server that hangs, or a proxy before it, keeps the connection; only its machine's kernel still answers. And an end to
the server's waiting for a process that hangs or has gone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, event

LOG = logging.getLogger(__name__)

# Of the session, and not of the URL's ``options``, which may say something else, and at which a pooler may end the
# connection. A server sets what it knows; what the URL, the role or the database says itself holds.
_LIMITS = """\
SELECT set_config(name, value, false) FROM pg_settings JOIN (VALUES
    ('idle_in_transaction_session_timeout', '{idle}'), ('client_connection_check_interval', '10s'),
    ('tcp_user_timeout', '{idle}'),
    ('tcp_keepalives_idle', '15s'), ('tcp_keepalives_interval', '15s'), ('tcp_keepalives_count', '3')
) AS wanted (name, value) USING (name) WHERE source NOT IN ('client', 'user', 'database', 'database user')"""


def be_patient_for(engine: Engine, seconds: float) -> None:
    """Count a server of this engine as gone that says nothing for so long in the middle of a statement."""

    class Bounded(PatientConnection):
        patience = seconds

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, words: list[Any], more: dict[str, Any]) -> Any:
        return Bounded.connect(*words, **more)


def be_left_after(engine: Engine, seconds: float) -> None:
    """Have the server end what this process does not go on with for so long: others wait for what it has locked."""

    @event.listens_for(engine, "connect")
    def limit(connection: Any, _record: object) -> None:
        try:
            connection.execute(_LIMITS.format(idle=f"{seconds * 1000:.0f}ms"))
            connection.commit()
        except psycopg.Error as error:
            if connection.closed:
                raise
            connection.rollback()
            LOG.warning("the database does not end transactions of a process that hangs: %s", error)


@contextmanager
def unhurried(connection: Connection) -> Iterator[None]:
    """What is done in here may take as long as it takes, as an index of many rows."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, PatientConnection)
    before, driver.patience = driver.patience, None
    try:
        yield
    finally:
        driver.patience = before


class PatientConnection(psycopg.Connection[Any]):
    """One whose server must say something now and then. ``patience``: seconds; None: it need not."""

    patience: float | None = None

    def wait(self, gen: Generator[Any, Any, Any], *words: Any, **more: Any) -> Any:
        """What psycopg does, with an end.

        :raises psycopg.OperationalError: when the server says nothing; the connection is closed then
        """
        return super().wait(self._bounded(gen), *words, **more)

    def _bounded(
        self, gen: Generator[Any, Any, Any], clock: Callable[[], float] = time.monotonic
    ) -> Generator[Any, Any, Any]:
        """The same, asked now and then even where nothing has come."""
        if self.patience is None:
            return (yield from gen)
        try:
            wanted, heard = next(gen), clock()
            while True:
                ready = yield wanted
                if ready:
                    heard = clock()
                elif clock() - heard > self.patience:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server has said nothing for {self.patience:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
