"""An end to PyMySQL's impatience, where a statement may take long: it counts a server as gone that is busy with one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql
from sqlalchemy import Connection

# Seconds, and how often: a server whose machine does not answer any more is noticed all the same.
_IDLE, _INTERVAL, _COUNT = 15, 15, 3


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
    if found.family in (socket.AF_INET, socket.AF_INET6):  # and not a local one
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _COUNT)
