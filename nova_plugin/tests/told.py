"""Hosts as the admin API tells of them, and computes as Nova has them, for tests."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
GIB = 1 << 30


def provider(number: int) -> str:
    """The UUID of the compute of this number."""
    return str(uuid.UUID(int=0x4000_8000_0000_0000_0000 + number))


def told(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A fresh host with 10 GiB of headroom and two VMs of 2 GiB, as JSON has it."""
    return {
        "name": f"host-{number}",
        "provider": provider(number),
        "state": "fresh",
        "epoch": "e1",
        "sequence": 7,
        "at": 1000.0,
        "period": 10.0,
        "assigned": 2 * (2 * GIB + 128 * MIB),
        "headroom": 10 * GIB,
        "admitting": True,
        "detail": "",
        "psi": 0.0,
        "domains": 2,
        **changes,
    }


@dataclass
class Aggregate:
    """One of Nova's aggregates."""

    metadata: dict[str, str]


@dataclass
class Compute:
    """What the plugin uses of Nova's HostState: 16 GiB with the two VMs of `told` and 512 MiB reserved."""

    number: int = 1
    host: str = ""
    nodename: str = ""
    uuid: str | None = None
    total_usable_ram_mb: int = 16384
    free_ram_mb: int = 16384 - 512 - 4096
    num_instances: int = 2
    hypervisor_type: str | None = "QEMU"
    aggregates: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = self.host or f"host-{self.number}"
        self.nodename = self.nodename or self.host
        self.uuid = self.uuid or provider(self.number)

    def place(self, memory_mb: int) -> None:
        """As HostState.consume_from_request does."""
        self.free_ram_mb -= memory_mb
        self.num_instances += 1
