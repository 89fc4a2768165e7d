"""The machine that a bench ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from bench.harness.precondition import ANYWAY
from lab import kvm


def machine() -> dict[str, Any]:
    """The machine as it is now: asked before a bench begins, which adds what its own figures depend on besides."""
    found = {
        "host": f"{platform.machine()}, {platform.system()} {platform.release()}",
        "processor": _first("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "kvm": _kvm(),
        "load_at_start": os.getloadavg()[0],
        "python": platform.python_version(),
    }
    if ANYWAY in os.environ:
        found["beside"] = "other work that was let pass"
    return found


def _kvm() -> str:
    found = kvm.known()
    if found is None:
        return "not tried yet"
    return "works" if found[0] else "does not work: guests are emulated"


def _first(path: str, key: str) -> str:
    for line in Path(path).read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"
