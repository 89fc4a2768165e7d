"""This part of the store as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from memhint.store.file import check_file, make_file
from memhint.store.light.database import Database
from memhint.store.light.events import Events
from memhint.store.light.growth import Growth
from memhint.store.light.marks import Marks
from memhint.store.light.policies import Policies
from memhint.store.light.reclaims import Reclaims
from memhint.store.light.reports import Reports
from memhint.store.light.states import PlannerStates
from memhint.store.rows.points import DomainKeep, Keep
from memhint.store.upgrade import upgrade_apart
from memhint.store.versions import HEAD, check_version

_SCHEME = "sqlite:///"


@dataclass(frozen=True, slots=True)
class LightStore:
    """An open store."""

    reports: Reports
    policies: Policies
    marks: Marks
    events: Events
    states: PlannerStates
    reclaims: Reclaims
    growth: Growth
    database: Database

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


def light_path(url: str) -> Path | None:
    """The file of a database URL that plainly names one; None for every other, which SQLAlchemy has to read."""
    name = url.removeprefix(_SCHEME)
    return None if name in (url, "", ":memory:") or set(name) & set("?%") else Path(name)


def open_light(path: Path, *, host: str, keep: Keep, domain_keep: DomainKeep, create: bool, busy: float) -> LightStore:
    """Open the store in a file; with ``create`` another process makes or upgrades its tables.

    :raises StoreMissing: where there is none and ``create`` is off
    :raises StoreVersion: where it is of a newer memhint, or of an older one and ``create`` is off
    :raises StoreError: where it cannot be used
    """
    make_file(path) if create else check_file(path)
    database = Database(path, busy)
    try:
        _ensure(database, path) if create else check_version(_version(database), f"{_SCHEME}{path}")
    except BaseException:
        database.close()
        raise
    return LightStore(
        Reports(database, keep, domain_keep),
        Policies(database),
        Marks(database, host),
        Events(database, keep.raw),
        PlannerStates(database),
        Reclaims(database, host, keep.raw),
        Growth(database),
        database,
    )


def _ensure(database: Database, path: Path) -> None:
    if _version(database) == HEAD:
        return
    url = f"{_SCHEME}{path}"
    upgrade_apart(url)
    if _version(database) != HEAD:
        from memhint.store.database import open_store  # does it here, or says why not

        open_store(url).close()


def _version(database: Database) -> str | None:
    with database.read() as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
            return None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])
