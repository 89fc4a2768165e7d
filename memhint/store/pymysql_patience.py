"""An end to PyMySQL's impatience, where a statement may take long: it counts a server as gone that is busy with one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from sqlalchemy import Connection

from memhint.store.patience import PROBE_SECONDS, PROBES


@contextmanager
def unhurried(connection: Connection) -> Iterator[None]:
    """What is done in here may take as long as it takes, as an index of many rows."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, pymysql.Connection)
    # The driver takes the time for an answer when it connects, and has no call that changes it.
    before, driver._read_timeout = driver._read_timeout, None
    _keep_alive(driver._sock)
    try:
        yield
    finally:
        driver._read_timeout = before


def _keep_alive(found: socket.socket) -> None:
    """Have a server whose machine does not answer any more noticed all the same."""
    if found.family in (socket.AF_INET, socket.AF_INET6):  # and not a local one
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_SECONDS)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
