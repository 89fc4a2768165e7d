"""Real hosts with real guests on one machine: isolated libvirt daemons, memory budgets, guests that boot in seconds."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.guest import Guest
    from lab.host import Host
    from lab.lab import Lab
    from lab.waiting import wait_for

__all__ = ["Guest", "Host", "Lab", "wait_for"]
_MODULES = {"Guest": "lab.guest", "Host": "lab.host", "Lab": "lab.lab", "wait_for": "lab.waiting"}


def __getattr__(name: str) -> Any:
    # Loaded where it is asked for: the tests of the guest kernel use a part of the lab where there is no libvirt.
    if name not in _MODULES:
        raise AttributeError(name)
    return getattr(import_module(_MODULES[name]), name)
