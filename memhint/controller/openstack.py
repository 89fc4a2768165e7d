"""The part of a controller that speaks with OpenStack: threads of its own, so that a slow Nova delays no report."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable, Mapping

from oslo_config import cfg

from memhint.controller.listening import Listening
from memhint.controller.ratios.writer import CapacityWriter
from memhint.controller.shedder import Shedder
from memhint.objects.units import MIB
from memhint.openstack import nova, placement
from memhint.openstack.session import service
from memhint.planner.capacity_write import WriterSettings
from memhint.store import Store
from memhint.store.capacity_views import CapacityViews
from memhint.store.errors import NOT_AWAY, StoreError
from memhint.store.fleet import HostEventKind

LOG = logging.getLogger(__name__)


def placement_of(conf: cfg.ConfigOpts) -> placement.Placement:
    """Placement, as [openstack] says.

    :raises OpenStackError: when it does not say enough
    """
    url = conf.openstack.placement_url
    return placement.Placement(service(conf, "placement", placement.MICROVERSION, url))


def nova_of(conf: cfg.ConfigOpts) -> nova.Nova:
    """Nova, as [openstack] says.

    :raises OpenStackError: when it does not say enough
    """
    return nova.Nova(service(conf, "compute", nova.MICROVERSION, conf.openstack.nova_url))


class OpenStackThread:
    """Rounds until it is closed: of ratios, of migrations, or of both.

    Each of the two has a thread: a Nova that hangs delays no ratio, nor a Placement that hangs a migration.
    A round that fails is logged, and the next one comes nevertheless.
    """

    def __init__(self, conf: cfg.ConfigOpts, store: Store, listening: Listening) -> None:
        """:param listening: for how long hosts were listened to, and who is told when the store is away
        :raises OpenStackError: when [openstack] does not say enough to log in
        """
        options = conf.openstack
        self._listening = listening
        self._interval = options.interval
        self._stop = threading.Event()
        self._writer: CapacityWriter | None = None
        if options.capacity != "off":
            self._writer = self._make_writer(conf, store)
        self._shedder: Shedder | None = None
        if options.migrate:
            asked = nova_of(conf)
            self._shedder = Shedder(
                store.hosts_view,
                store.reports,
                store.fleet,
                asked,
                options.migrate_pause,
                options.providers,
                stopped=self._stop.is_set,
            )
        self._threads: list[threading.Thread] = []

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of the ratios so far, as CapacityWriter counts it."""
        return self._writer.counts if self._writer is not None else {}

    def start(self) -> None:
        """Begin."""
        if self._writer is not None:
            self._begin("openstack", self._writer.round, "no ratio is written")
        if self._shedder is not None:
            self._begin("openstack-migrations", self._shedder.round, "no VM is moved")

    def close(self) -> None:
        """End after the hosts that are at work."""
        self._stop.set()
        for one in self._threads:
            one.join()

    def _begin(self, name: str, work: Callable[[], object], waits: str) -> None:
        thread = threading.Thread(target=self._run, args=(work, waits), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _make_writer(self, conf: cfg.ConfigOpts, store: Store) -> CapacityWriter:
        options = conf.openstack
        views = CapacityViews(store.database, store.hosts_view, self._listening.seconds)
        return CapacityWriter(
            views.read,
            store.capacities,
            placement_of(conf),
            lambda host, what: store.fleet.tell(host, HostEventKind.CAPACITY, what),
            WriterSettings(options.max_ratio, options.quantum, options.smallest_vm_mib * MIB, options.providers),
            f"{socket.gethostname()[:30]}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
            write=options.capacity == "write",
            refresh=options.refresh,
            stopped=self._stop.is_set,
            renewed=views.one,
        )

    def _run(self, work: Callable[[], object], waits: str) -> None:
        """:param waits: what is not done while the store is away, for the log"""
        while not self._stop.is_set():
            try:
                work()
            except StoreError as error:
                if not isinstance(error, NOT_AWAY):
                    self._listening.away()
                LOG.error("%s until the store is back: %s", waits, error)
            except Exception:
                LOG.exception("a round failed")  # whatever it was, silence must still lower a ratio later
            self._stop.wait(self._interval)
