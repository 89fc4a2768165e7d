"""The controller's life: open the store, consume until told to end."""

from __future__ import annotations

import gc
import logging
import signal
from types import FrameType
from typing import TYPE_CHECKING

from oslo_config import cfg

from memhint.bus.courier import Courier
from memhint.bus.errors import BusError
from memhint.bus.link import parameters
from memhint.bus.rabbit_consumer import Handler, RabbitConsumer
from memhint.bus.settings import link_settings
from memhint.controller import growth
from memhint.controller.backtest import Judge
from memhint.controller.instances import Follower
from memhint.controller.intake import Intake
from memhint.controller.listening import Listening
from memhint.controller.openstack import OpenStackThread, nova_of
from memhint.controller.reconcile import Reconciler
from memhint.controller.rounds import Rounds
from memhint.controller.tidying import Tidier
from memhint.store.database import Store, open_store
from memhint.store.rows.points import TIDY_EVERY, DomainKeep, Keep

if TYPE_CHECKING:
    from memhint.controller.metrics_server import ControllerMetricsServer

LOG = logging.getLogger(__name__)


class ControllerService:
    """One controller process. What it has taken and not yet kept, another one is given when it ends."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._stop = False

    def run(self) -> int:
        """Serve until told to stop; 0.

        :raises BusError: when no broker is configured, or its settings cannot be used
        :raises ConfigError: when options do not fit each other
        :raises OpenStackError: when [openstack] does not say enough to log in
        :raises StoreError: when the store cannot be opened
        """
        growth.check(self._conf)
        settings = link_settings(self._conf)
        if not settings.urls:
            raise BusError("[bus] urls is empty: a controller needs the broker that agents report to")
        parameters(settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        options = self._conf.store
        store = open_store(options.url, keep=Keep.of(options), domain_keep=DomainKeep.of(options))
        tell_of_disk(options.url)
        # A batch is hundreds of thousands of records without a circle among them, and looking for circles takes as
        # long as reading them.
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        own = self._conf.controller
        courier = Courier(settings, own.command_deadline)
        courier.start()
        listening = Listening()
        openstack = None
        beside: list[Rounds] = []
        metrics_server: ControllerMetricsServer | None = None
        try:
            judge = Judge(store.promises, store.history)
            rounds = follower_of(self._conf, store), _learner(self._conf, store), _backtest(self._conf, judge)
            beside += [one for one in rounds if one is not None]
            tidier = Tidier(store, own.forget_days * 86400)
            beside.append(Rounds("tidying", tidier.round, TIDY_EVERY, "what has grown old stays"))
            for one in beside:
                one.start()
            if self._conf.openstack.capacity != "off" or self._conf.openstack.migrate:
                openstack = OpenStackThread(self._conf, store, listening)
                openstack.start()
            reconciler = Reconciler(store, courier.send, own.resend)
            intake = Intake(store, own.sweep, reconciler.look, listening=listening)
            LOG.info("controller, a sweep each %g s", self._conf.controller.sweep)
            batch = self._conf.controller.batch
            if self._conf.metrics.listen:
                # what it needs is loaded only where it is wanted
                from memhint.controller.metrics_server import ControllerMetricsServer

                metrics_server = ControllerMetricsServer(self._conf.metrics.listen, intake, openstack, judge)
                handler: Handler = metrics_server.handler
            else:
                handler = intake
            RabbitConsumer(
                settings,
                handler,
                batch=batch,
                stopped=lambda: self._stop,
                waits=None if metrics_server is None else metrics_server.handler.waits,
            ).run()
        finally:
            if metrics_server is not None:
                metrics_server.close()
            if openstack is not None:
                openstack.close()
            for one in beside:
                one.close()
            courier.close()
            store.close()
        return 0

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop = True


def run(conf: cfg.ConfigOpts) -> int:
    """Run a controller until it is told to stop; the process's exit code."""
    return ControllerService(conf).run()


def tell_of_disk(url: str) -> None:
    """Warn who has left the store as it is on one host: nothing goes wrong before a second controller is started."""
    if url.startswith("sqlite"):
        LOG.warning(
            "[store] url is a file, which keeps the fleet on this disk; a second controller needs a database server"
        )


def follower_of(conf: cfg.ConfigOpts, store: Store) -> Rounds | None:
    """What follows Nova's servers, where it is asked for and controllers can log in."""
    options = conf.openstack
    if not options.instances:
        store.instances.leave()
        return None
    if options.capacity == "off" and not options.auth_url:
        if store.instances.followed():
            LOG.warning(
                "Nova's list of VMs stays as it was last read, and new VMs are no project's: without a login it is"
                " not read here; if no other controller reads it, set [openstack] instances = false"
            )
        return None
    follower = Follower(store.instances, nova_of(conf), options.instances_interval)
    return Rounds("instances", follower.round, options.interval, "what Nova says of VMs is not kept")


def _learner(conf: cfg.ConfigOpts, store: Store) -> Rounds | None:
    """What learns how VMs grow, unless that is switched off."""
    pause = conf.controller.growth_interval
    if not pause:
        return None
    return Rounds("growth", growth.Learner(store.growth, pause).round, pause, "nothing is learnt of how VMs grow")


def _backtest(conf: cfg.ConfigOpts, judge: Judge) -> Rounds | None:
    """What judges promises by what came, unless nobody wants it."""
    pause = conf.controller.promise_interval
    if not pause:
        return None
    return Rounds("backtest", judge.round, pause, "no promise is judged")
