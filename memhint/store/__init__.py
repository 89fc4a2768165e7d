"""Where a host keeps its newest report, its history, its policies, its marks and the record of what was done.

The names below are loaded when they are asked for: the agent does without SQLAlchemy, see `memhint.store.light`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memhint.store.errors import StoreDamaged, StoreError, StoreMissing, StoreVersion

if TYPE_CHECKING:
    from memhint.store.database import Store, open_store

__all__ = ["Store", "StoreDamaged", "StoreError", "StoreMissing", "StoreVersion", "open_store"]


def __getattr__(name: str) -> Any:
    if name in ("Store", "open_store"):
        return getattr(import_module("memhint.store.database"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
