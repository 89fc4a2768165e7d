"""Header tables of a message that RabbitMQ takes and hands on, and that pika cannot read."""

from __future__ import annotations

import struct
from typing import Any

import pika

LATE = b"\x01aT" + struct.pack(">Q", 2**62)  # a moment far beyond the year 9999
DEEP = b""
for _ in range(500):
    DEEP = b"\x01aF" + struct.pack(">I", len(DEEP)) + DEEP


class Headed(pika.BasicProperties):
    """Properties with a header table of these bytes."""

    def __init__(self, table: bytes, **properties: Any) -> None:
        super().__init__(headers={}, **properties)
        self._table = table

    def encode(self) -> list[bytes]:
        pieces: list[bytes] = super().encode()
        pieces[pieces.index(bytes(4))] = struct.pack(">I", len(self._table)) + self._table
        return pieces
