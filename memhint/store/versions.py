"""The versions of the tables, and which of them this memhint works on, in one place that needs no database."""

from __future__ import annotations

from memhint.store.errors import StoreMissing, StoreVersion

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
)  # every one that this memhint knows, oldest first
HEAD = REVISIONS[-1]


def check_version(found: str | None, name: str) -> None:
    """Hold the version of a store's tables, None where it has none, against this memhint.

    :param name: of the database, as it may be shown
    :raises StoreMissing: where there are no tables yet
    :raises StoreVersion: where they are older or newer than this memhint
    """
    if found is None:
        raise StoreMissing(f"{name} has no tables yet: start the agent (memhint agent)")
    refuse_newer(found, name)
    if found != HEAD:
        raise StoreVersion(f"{name} is of an older memhint ({found}): restart the agent, it upgrades the store")


def refuse_newer(found: str, name: str) -> None:
    """Whether an agent may work on tables of this version, or upgrade them.

    :param name: of the database, as it may be shown
    :raises StoreVersion: where they are newer than this memhint
    """
    if found not in REVISIONS:
        raise StoreVersion(
            f"{name} is of a newer memhint ({found}, this one knows up to {HEAD}): "
            "upgrade memhint, put back the copy of the store from before its upgrade, "
            "or choose another place with [store] url"
        )
