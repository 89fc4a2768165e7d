"""Modules that an agent's libraries import, and no agent uses: each is loaded when first asked for something.

oslo.config imports what checks addresses and what loads plugins, oslo.serialization a client of XML-RPC, which brings
HTTP, TLS and e-mail along. All of them together take 6 MiB.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterable
from types import ModuleType

UNUSED = ("debtcollector", "logging.config", "netaddr", "rfc3986", "stevedore", "xmlrpc.client")

_lock = threading.Lock()


class Unloaded(ModuleType):
    """Stands for a module, and hands on whatever is asked of it."""

    def __getattr__(self, name: str) -> object:
        with _lock:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def leave_unloaded(names: Iterable[str] = UNUSED) -> None:
    """Spare this process those of the modules that it has not loaded yet. Before anything imports them."""
    for name in names:
        if name in sys.modules or importlib.util.find_spec(name) is None:
            continue
        sys.modules[name] = stand_in = Unloaded(name)
        package, _, last = name.rpartition(".")
        if package:
            setattr(importlib.import_module(package), last, stand_in)
