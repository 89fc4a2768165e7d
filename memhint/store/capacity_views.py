"""The hosts as the capacity writer needs them: those with a resource provider, and which VMs their plans counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import select

from memhint.objects.report import STALE_PERIODS
from memhint.objects.summary import Freshness, HostSummary
from memhint.planner.capacity_write import HostCapacity
from memhint.store.engine import Database
from memhint.store.hosts_view import HostsView
from memhint.store.tables import domain

_AT_ONCE = 500  # hosts in one question for their VMs


class CapacityViews:
    """Reads the VMs of a host only when it has a newer report. Not for several threads.

    Every method raises StoreError when the database fails.
    """

    def __init__(
        self, database: Database, hosts: HostsView, listened: Callable[[], float] = lambda: float("inf")
    ) -> None:
        """:param listened: the seconds for which what hosts say could be kept"""
        self._database = database
        self._listened = listened
        self._hosts = hosts
        self._memory: dict[str, tuple[tuple[str, int], dict[str, int]]] = {}

    def read(self) -> tuple[HostCapacity, ...]:
        """Every host that has a provider, as its newest report tells."""
        hosts = [one for one in self._hosts.all() if one.provider is not None]
        here = {one.name for one in hosts}
        self._memory = {name: known for name, known in self._memory.items() if name in here}
        self._renew([one for one in hosts if self._plan(one.name) != (one.epoch, one.sequence)])
        # A report that comes in between the two reads makes the plan older than its VMs; the writer's turn finds out.
        return tuple(map(self._view, hosts))

    def one(self, name: str) -> HostCapacity | None:
        """One host, as its newest report tells; None where it is not there.

        :raises StoreError: when the database fails
        """
        found = self._hosts.one(name)
        if found is None:
            return None
        if self._plan(name) != (found.epoch, found.sequence):
            self._renew([found])
        return self._view(found)

    def _plan(self, name: str) -> tuple[str, int] | None:
        known = self._memory.get(name)
        return known[0] if known else None

    def _renew(self, hosts: Sequence[HostSummary]) -> None:
        for start in range(0, len(hosts), _AT_ONCE):
            part = {one.name: one for one in hosts[start : start + _AT_ONCE]}
            for name, one in part.items():
                self._memory[name] = ((one.epoch, one.sequence), {})
            query = select(domain.c.host, domain.c.uuid, domain.c.assigned).where(domain.c.host.in_(part))
            with self._database.read() as connection:
                for name, uuid, assigned in connection.execute(query):
                    self._memory[name][1][uuid] = assigned

    def _view(self, one: HostSummary) -> HostCapacity:
        return HostCapacity(
            host=one.name,
            provider=one.provider,
            forced_ratio=one.forced_ratio,
            stale=one.state is not Freshness.FRESH,
            headroom=one.headroom,
            slot=one.slot,
            slot_overhead=one.slot_overhead,
            memory=self._memory[one.name][1],
            epoch=one.epoch,
            sequence=one.sequence,
            heard=one.state is not Freshness.STALE or self._listened() >= STALE_PERIODS * one.period,
        )
