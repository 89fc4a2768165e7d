"""Asks Nova to move away the VM that a host under pressure names. It never evacuates, and never chooses the target."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

from memhint.objects.ladder import Rung
from memhint.objects.summary import Freshness, HostSummary
from memhint.openstack.errors import NotThere, OpenStackError
from memhint.store.fleet import Fleet, HostEventKind
from memhint.store.hosts_view import HostsView
from memhint.store.reports import Reports

LOG = logging.getLogger(__name__)


class NovaApi(Protocol):
    """What is asked of Nova."""

    def busy(self, server: str) -> bool:
        """Whether it does something with the server already."""

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
        clock: Callable[[], float] = time.time,
    ) -> None:
        """:param pause: seconds between two migrations from one host."""
        self._hosts = hosts
        self._reports = reports
        self._fleet = fleet
        self._nova = nova
        self._pause = pause
        self._clock = clock

    def round(self) -> int:
        """Ask for one VM of each host that needs it; how many were asked for.

        :raises StoreError: when the database fails
        """
        return sum(self._one(host) for host in self._hosts.all() if Rung.MIGRATION in host.rungs)

    def _one(self, host: HostSummary) -> bool:
        if host.state is not Freshness.FRESH or host.provider is None or self._lately(host.name):
            return False
        report = self._reports.newest(host.name)
        server = report.plan.relief.migrate if report is not None else None
        if server is None:
            return False
        try:
            if self._nova.busy(server):
                return False
            self._nova.live_migrate(server)
        except NotThere:
            return False  # a VM that is not Nova's: an operator's own, who sees the event of its host
        except OpenStackError as error:
            LOG.warning("%s: Nova does not move %s: %s", host.name, server, error)
            self._fleet.tell(host.name, HostEventKind.MIGRATION, f"{server}: refused: {error}")
            return False
        LOG.info("%s: Nova moves %s to another host", host.name, server)
        self._fleet.tell(host.name, HostEventKind.MIGRATION, f"{server}: asked Nova for a live migration")
        return True

    def _lately(self, name: str) -> bool:
        asked = (one.at for one in self._fleet.happened(50, name) if one.kind is HostEventKind.MIGRATION)
        return any(self._clock() - at < self._pause for at in asked)
