"""Addresses of a stack: a loopback network of its own, so that every service keeps the port it is known for."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Network:
    """The first three numbers of a /24 in 127.0.0.0/8."""

    prefix: str

    @classmethod
    def of(cls, directory: Path) -> Network:
        """The network of the stack in a directory: the same for every process that asks."""
        number = zlib.crc32(str(directory.resolve()).encode())
        return cls(f"127.{1 + number % 254}.{number // 254 % 256}")

    @property
    def control(self) -> str:
        """Where the control plane listens."""
        return f"{self.prefix}.1"

    def url(self, port: int, path: str = "") -> str:
        """HTTP address of a service of the control plane."""
        return f"http://{self.control}:{port}{path}"
