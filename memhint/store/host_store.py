"""The store as the agent of a host and its commands need it, opened with as little as its database allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from memhint.objects.lever import LeverState
from memhint.objects.ownership import Ledger
from memhint.objects.policy import Origin
from memhint.objects.reclaim import Reclaim
from memhint.objects.report import Report
from memhint.planner.growth import GrowthTable
from memhint.planner.state import PlannerState
from memhint.store.light.store import light_path, open_light
from memhint.store.patience import BUSY_SECONDS
from memhint.store.rows.points import DOMAIN_KEEP, KEEP, DomainKeep, Keep
from memhint.store.rows.policies import StoredPolicies


class HostReports(Protocol):
    """See `memhint.store.reports`."""

    def save(self, new: Report) -> None:
        """Make this the newest."""

    def newest(self, host: str) -> Report | None:
        """A host's newest."""

    def hosts(self) -> tuple[str, ...]:
        """Whose there are."""

    def last_epoch(self, host: str) -> str | None:
        """Which life of the agent the newest is of."""


class HostPolicies(Protocol):
    """See `memhint.store.policies`."""

    def read(self, uuid: str | None = None) -> StoredPolicies:
        """Every wish, or those for one VM."""

    def set_operator(self, uuid: str, values: Mapping[str, str], unset: Iterable[str] = ()) -> None:
        """Change an operator's, all or none."""

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        """Make these all the wishes of one origin."""


class HostEvents(Protocol):
    """See `memhint.store.events`."""

    def record(self, host: str, at: float, states: Iterable[LeverState]) -> None:
        """Add pulls."""


class HostStates(Protocol):
    """See `memhint.store.states`."""

    def save(self, host: str, boot: str, state: PlannerState, ended: float | None = None) -> None:
        """Keep one."""

    def newest(self, host: str, boot: str) -> PlannerState | None:
        """Of this boot."""

    def of_last_boot(self, host: str, boot: str) -> tuple[PlannerState, float | None] | None:
        """Of the last boot, and when it ended in order."""


class HostReclaims(Protocol):
    """See `memhint.store.reclaims`."""

    def add(self, new: Reclaim) -> None:
        """Queue a request that is new."""

    def add_once(self, new: Reclaim) -> None:
        """Queue a request, unless it is there."""

    def interrupt(self, request: str, why: str) -> None:
        """Note that it shall end."""

    def interrupted(self) -> dict[str, str]:
        """Why requests shall end, by id."""

    def save(self, changed: Reclaim) -> bool:
        """Keep how far one has come."""

    def get(self, request: str) -> Reclaim | None:
        """One by its id."""

    def open(self) -> tuple[Reclaim, ...]:
        """Those that have not ended."""

    def newest(self) -> tuple[Reclaim, ...]:
        """The newest first."""


class HostGrowth(Protocol):
    """See `memhint.store.growth`."""

    def newest(self) -> GrowthTable | None:
        """The table that holds."""

    def save(self, table: GrowthTable) -> None:
        """Make it the one that holds."""


class HostStore(Protocol):
    """What both stores are to an agent and its host's commands."""

    @property
    def reports(self) -> HostReports:
        """Reports, lines and histories."""

    @property
    def policies(self) -> HostPolicies:
        """Wishes."""

    @property
    def marks(self) -> Ledger:
        """What memhint changed."""

    @property
    def events(self) -> HostEvents:
        """Pulls."""

    @property
    def states(self) -> HostStates:
        """What the planner remembers."""

    @property
    def reclaims(self) -> HostReclaims:
        """Requests to reclaim."""

    @property
    def growth(self) -> HostGrowth:
        """The growth table."""

    def close(self) -> None:
        """Let go of the database."""


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
