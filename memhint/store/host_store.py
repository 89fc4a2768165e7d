"""The store as the agent of a host and its commands need it, opened with as little as its database allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from memhint.store.light.store import LightStore, light_path, open_light
from memhint.store.patience import BUSY_SECONDS
from memhint.store.rows.points import DOMAIN_KEEP, KEEP, DomainKeep, Keep

if TYPE_CHECKING:
    from memhint.store.database import Store

HostStore: TypeAlias = "LightStore | Store"
"""What either is to an agent and its host's commands."""


def open_host_store(
    url: str,
    *,
    host: str,
    keep: Keep = KEEP,
    domain_keep: DomainKeep = DOMAIN_KEEP,
    create: bool = True,
    busy: float = BUSY_SECONDS,
) -> HostStore:
    """Open the store at a database URL. Parameters as of `open_store`.

    Only what is no plain SQLite file needs SQLAlchemy.

    :raises StoreMissing: where there is none and ``create`` is off
    :raises StoreVersion: where it is of a newer memhint, or of an older one and ``create`` is off
    :raises StoreError: where it cannot be used
    """
    path = light_path(url)
    if path is not None:
        return open_light(path, host=host, keep=keep, domain_keep=domain_keep, create=create, busy=busy)
    from memhint.store.database import open_store

    return open_store(url, host=host, keep=keep, domain_keep=domain_keep, create=create, busy=busy)
