"""Headers of a message that RabbitMQ takes and hands on, and that pika cannot read, or reads otherwise."""

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


class Forged(pika.BasicProperties):
    """To RabbitMQ they are of ``user``; where the last bit of the flags means that more follow, of ``another``."""

    def __init__(self, user: str, another: str) -> None:
        super().__init__(user_id=user)
        self._user, self._another = user.encode(), another.encode()

    def encode(self) -> list[bytes]:
        # The type of its content: its length, which must be even, and first byte would be the flags that follow.
        hidden = b"\0" + _short(b"x") + _short(self._another)
        hidden += bytes(len(hidden) % 2)
        flags = self.FLAG_CONTENT_TYPE | self.FLAG_USER_ID | 1
        return [struct.pack(">H", flags), _short(hidden), _short(self._user)]


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text
