"""Asks Nova to move away the VM that a host under pressure names. It never evacuates, and never chooses the target."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from memhint.objects.ladder import Rung
from memhint.objects.summary import Freshness, HostSummary
from memhint.openstack.errors import NotThere, OpenStackError, Unreachable
from memhint.openstack.nova import Placed
from memhint.planner.claims import canonical, speaks_for
from memhint.store.errors import StoreError
from memhint.store.fleet import Fleet, HostEventKind
from memhint.store.hosts_view import HostsView
from memhint.store.reports import Reports

LOG = logging.getLogger(__name__)


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
        self._stopped = stopped

    def round(self) -> int:
        """Ask for one VM of each host that needs it; how many were asked for.

        :raises StoreError: when the database fails
        """
        asked = 0
        for host in self._hosts.all():
            if self._stopped():  # with a Nova that hangs all of them would take many minutes
                break
            if Rung.MIGRATION in host.rungs:
                try:
                    asked += self._guarded(host)
                except Unreachable as error:
                    LOG.warning("nothing is moved until Nova answers: %s", error)
                    break
        return asked

    def _guarded(self, host: HostSummary) -> bool:
        """One host's word must not end the round for all others."""
        try:
            return self._one(host)
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
        # A host can say anything, of itself too: what it may have moved is what Nova runs on its own compute.
        try:
            placed = self._nova.placed(server)
            if placed.busy:
                return False
            name = self._nova.hypervisor(provider) if provider is not None else None
        except Unreachable:
            raise
        except NotThere:
            return False  # a VM that is not Nova's: an operator's own, who sees the event of its host
        except OpenStackError as error:  # Nova has refused nothing yet: it is asked again in the next round
            LOG.warning("%s: %s is not moved: %s", host.name, server, error)
            return False
        if provider is None or name is None or not speaks_for(host.name, provider, name, self._said):
            return self._refused(host.name, server, "it claims another compute")
        if placed.hypervisor != name:
            return self._refused(host.name, server, "Nova does not run it on this host's compute")
        try:
            self._nova.live_migrate(server)
        except NotThere:
            return False
        except OpenStackError as error:
            return self._refused(host.name, server, str(error))
        LOG.info("%s: Nova moves %s to another host", host.name, server)
        self._fleet.tell(host.name, HostEventKind.MIGRATION, f"{server}: asked Nova for a live migration")
        return True

    def _refused(self, host: str, server: str, why: str) -> bool:
        LOG.warning("%s: %s is not moved: %s", host, server, why)
        self._fleet.tell(host, HostEventKind.MIGRATION, f"{server}: refused: {why}")
        return False
