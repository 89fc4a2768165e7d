"""The store as a whole: opened by a URL, one small object per kind of thing in it."""

from __future__ import annotations

from dataclasses import dataclass

from memhint.store import schema
from memhint.store.capacities import Capacities
from memhint.store.central_policies import CentralPolicies
from memhint.store.domain_history import DomainHistory
from memhint.store.domains import Domains
from memhint.store.engine import Database, connect, parse_url
from memhint.store.events import Events
from memhint.store.file import check_file, file_of, make_file
from memhint.store.fleet import Fleet
from memhint.store.growth import Growth
from memhint.store.history import History
from memhint.store.hosts_view import HostsView
from memhint.store.instances import Instances
from memhint.store.marks import Marks
from memhint.store.patience import BUSY_SECONDS
from memhint.store.policies import Policies
from memhint.store.promises import Promises
from memhint.store.reclaims import Reclaims
from memhint.store.reports import Reports
from memhint.store.rows.points import DOMAIN_KEEP, KEEP, DomainKeep, Keep
from memhint.store.states import PlannerStates
from memhint.store.summaries import Summaries


@dataclass(frozen=True, slots=True)
class Store:
    """An open store."""

    reports: Reports
    history: History
    policies: Policies
    marks: Marks
    events: Events
    states: PlannerStates
    reclaims: Reclaims
    fleet: Fleet
    hosts_view: HostsView
    domains: Domains
    domain_history: DomainHistory
    capacities: Capacities
    central_policies: CentralPolicies
    instances: Instances
    growth: Growth
    promises: Promises
    database: Database

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


def open_store(
    url: str,
    *,
    host: str = "",
    keep: Keep = KEEP,
    domain_keep: DomainKeep = DOMAIN_KEEP,
    create: bool = True,
    busy: float = BUSY_SECONDS,
) -> Store:
    """Open the store at a database URL.

    With ``create`` its directory, file and tables are made or upgraded as needed: that is the agent's part. ``host``
    keeps the marks and requests of several hosts in one database apart; empty is all of them. Events go with the
    history's single cycles; of the history, the worst of each five minutes and of each hour stays longer. With SQLite a
    transaction waits ``busy`` seconds for one of another process.

    :raises StoreMissing: where there is none and ``create`` is off
    :raises StoreVersion: where it is of a newer memhint
    :raises StoreError: where it cannot be used
    """
    parsed = parse_url(url)
    path = file_of(parsed)
    if path is not None:
        make_file(path) if create else check_file(path)
    database = connect(parsed, busy)
    try:
        schema.ensure(database) if create else schema.check(database)
    except BaseException:
        database.close()
        raise
    history = History(database, keep)
    events = Events(database, keep.raw)
    domain_history = DomainHistory(database, domain_keep)
    summaries = Summaries(domain_history)
    reclaims = Reclaims(database, host, keep.raw)
    return Store(
        Reports(database, history, summaries),
        history,
        Policies(database),
        Marks(database, host),
        events,
        PlannerStates(database),
        reclaims,
        Fleet(database, history, events, summaries, reclaims, keep.hours),
        HostsView(database),
        Domains(database),
        domain_history,
        Capacities(database),
        CentralPolicies(database),
        Instances(database),
        Growth(database, domain_keep.hours),
        Promises(database, keep.hours),
        database,
    )
