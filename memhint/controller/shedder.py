"""Asks Nova to move away the VM that a host under pressure names, or where Nova cannot, the next one in the same order.

It never evacuates, and never chooses the target.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from memhint.objects.ladder import Rung
from memhint.objects.report import Report
from memhint.objects.summary import Freshness, HostSummary
from memhint.openstack.errors import NotThere, OpenStackError, Unreachable
from memhint.openstack.nova import Placed
from memhint.planner.claims import canonical, speaks_for
from memhint.planner.relief.migration import in_order
from memhint.store.errors import NOT_AWAY, StoreError
from memhint.store.fleet import Fleet, HostEventKind
from memhint.store.hosts_view import HostsView
from memhint.store.reports import Reports

LOG = logging.getLogger(__name__)

REFUSED = 3600.0  # seconds for which others come before a VM that Nova refused to move
LOOKED_AT = 8  # VMs of one host that Nova is asked for in one round


class NovaApi(Protocol):
    """What is asked of Nova."""

    def placed(self, server: str) -> Placed:
        """Where a server runs, and whether something is done with it already."""

    def hypervisor(self, provider: str) -> str | None:
        """The name of the hypervisor that is a resource provider."""

    def live_migrate(self, server: str) -> None:
        """Have it moved to another host."""


class Shedder:
    """One round after the other; what was asked, and when, is in the record of events that all controllers share."""

    def __init__(
        self,
        hosts: HostsView,
        reports: Reports,
        fleet: Fleet,
        nova: NovaApi,
        pause: float,
        providers: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """:param pause: seconds between two migrations from one host
        :param providers: the operator's word, UUID of the provider by name of the host
        :param stopped: whether to leave the hosts that are left to the next round
        """
        self._hosts = hosts
        self._reports = reports
        self._fleet = fleet
        self._nova = nova
        self._pause = pause
        self._said = providers
        self._clock = clock
        self._stopped = stopped
        self._refusals: dict[str, float] = {}  # when Nova refused to move a VM
        self._ended_at = ""  # the host at which the last round ended, for Nova did not answer

    def round(self) -> int:
        """Ask for one VM of each host that needs it; how many were asked for.

        :raises StoreError: when the database fails
        """
        asked = 0
        now = self._clock()
        self._refusals = {server: at for server, at in self._refusals.items() if now - at < REFUSED}
        # Where one cell of Nova's does not answer, the hosts of the others have their turn in the next round.
        hosts = sorted(self._hosts.all(), key=lambda one: (one.name <= self._ended_at, one.name))
        self._ended_at = ""
        for host in hosts:
            if self._stopped():  # with a Nova that hangs all of them would take many minutes
                break
            if Rung.MIGRATION in host.rungs:
                try:
                    asked += self._guarded(host)
                except Unreachable as error:
                    LOG.warning("nothing is moved until Nova answers: %s", error)
                    self._ended_at = host.name
                    break
        return asked

    def _guarded(self, host: HostSummary) -> bool:
        """One host's word must not end the round for all others."""
        try:
            return self._one(host)
        except NOT_AWAY as error:
            LOG.error("%s: its VM is not moved: %s", host.name, error)
            return False
        except (StoreError, Unreachable):
            raise
        except Exception:
            LOG.exception("%s: its VM is not moved", host.name)
            return False

    def _one(self, host: HostSummary) -> bool:
        if host.state is not Freshness.FRESH or host.provider is None:
            return False
        if self._fleet.happened_lately(host.name, HostEventKind.MIGRATION, self._pause):
            return False
        report = self._reports.newest(host.name)
        named = report.plan.relief.migrate if report is not None else None
        if report is None or named is None:
            return False
        server, provider = canonical(named), canonical(host.provider)  # they become part of a path at Nova
        if server is None or server not in {canonical(one.observation.uuid) for one in report.domains}:
            return self._refused(host.name, f"{named!r:.60}", "the host does not report such a VM")
        try:
            return self._first_of(host.name, provider, server, self._order(report, server))
        except Unreachable:
            raise
        except NotThere:
            return False  # Nova has no such hypervisor
        except OpenStackError as error:  # Nova has refused nothing yet: it is asked again in the next round
            LOG.warning("%s: %s is not moved: %s", host.name, server, error)
            return False

    def _order(self, report: Report, named: str) -> list[str]:
        """The VM that is named, then the others as a host names them; those last that Nova has refused to move."""
        others = in_order((one.observation, one.policy) for one in report.domains if not one.careful)
        known = dict.fromkeys([named, *filter(None, map(canonical, others))])
        return sorted(known, key=lambda one: self._refusals.get(one, 0.0))

    def _first_of(self, host: str, provider: str | None, named: str, servers: Sequence[str]) -> bool:
        """Have the first one moved that Nova can move.

        A host can say anything, of itself too: what it may have moved is what Nova runs on its own compute.
        """
        compute: str | None = None
        for server in servers[:LOOKED_AT]:
            try:
                placed = self._nova.placed(server)
            except NotThere:
                continue  # a VM that is not Nova's: an operator's own, who sees the event of its host
            if placed.moving:
                return False
            if placed.busy:
                LOG.info("%s: Nova cannot move %s now", host, server)
                continue
            compute = compute or (self._nova.hypervisor(provider) if provider is not None else None)
            if provider is None or compute is None or not speaks_for(host, provider, compute, self._said):
                return self._refused(host, server, "it claims another compute")
            if placed.hypervisor != compute:
                if server == named:
                    return self._refused(host, server, "Nova does not run it on this host's compute")
                continue
            try:
                self._nova.live_migrate(server)
            except NotThere:
                continue
            except OpenStackError as error:
                if not isinstance(error, Unreachable):  # that one may come about all the same
                    self._refusals[server] = self._clock()
                return self._refused(host, server, str(error))
            LOG.info("%s: Nova moves %s to another host", host, server)
            self._fleet.tell(host, HostEventKind.MIGRATION, f"{server}: asked Nova for a live migration")
            return True
        return False

    def _refused(self, host: str, server: str, why: str) -> bool:
        LOG.warning("%s: %s is not moved: %s", host, server, why)
        self._fleet.tell(host, HostEventKind.MIGRATION, f"{server}: refused: {why}")
        return False
