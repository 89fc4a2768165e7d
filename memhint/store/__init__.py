"""Where a host keeps its newest report, its history, its policies, its marks and the record of what was done."""

from __future__ import annotations

from memhint.store.database import Store, open_store
from memhint.store.errors import StoreDamaged, StoreError, StoreMissing, StoreVersion

__all__ = ["Store", "StoreDamaged", "StoreError", "StoreMissing", "StoreVersion", "open_store"]
