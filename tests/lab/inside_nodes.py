"""Runs inside a virtual host: its NUMA nodes as its kernel sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NODES = Path("/sys/devices/system/node")
TIERS = Path("/sys/devices/virtual/memory_tiering")


def seen() -> dict[str, Any]:
    """Nodes by tier, the fastest first; processors and bytes by node."""
    tiers = sorted(TIERS.glob("memory_tier*"), key=lambda path: int(path.name.removeprefix("memory_tier")))
    nodes = sorted(NODES.glob("node[0-9]*"))
    return {
        "tiers": [[int(word) for word in (tier / "nodelist").read_text().split(",") if word.strip()] for tier in tiers],
        "cpus": [(node / "cpulist").read_text().strip() for node in nodes],
        "memory": [_total(node / "meminfo") for node in nodes],
    }


def _total(meminfo: Path) -> int:
    (line,) = (line for line in meminfo.read_text().splitlines() if "MemTotal:" in line)
    return int(line.split()[3]) * 1024
