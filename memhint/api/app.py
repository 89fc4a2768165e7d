"""An application, made of the configuration."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from memhint.api.application import Application
from memhint.api.auth import KEYSTONE_HOLDS, Authenticator, ByKeystone, ByToken, LoopbackOnly, is_loopback
from memhint.api.bus_watch import BusWatch
from memhint.api.enforcer import Enforcer
from memhint.api.handlers.stream import looker
from memhint.api.limits import AT_ONCE_LEAST, AtOnce, Buckets
from memhint.api.metrics.figures import FleetFigures
from memhint.api.metrics.requests import Requests
from memhint.api.openapi import document
from memhint.api.parts import Parts
from memhint.api.routes import ROUTES
from memhint.api.stream import Hub
from memhint.api.tokens import TokenFileError, Tokens
from memhint.api.unconfirmed import Unconfirmed
from memhint.conf.errors import ConfigError
from memhint.conf.policy import host_inputs
from memhint.controller.dispatch import Dispatch
from memhint.objects.report import STALE_PERIODS
from memhint.objects.units import MIB
from memhint.store.database import Store
from memhint.store.errors import StoreError
from memhint.store.fleet_history import FleetHistory
from memhint.store.log import Log

LOG = logging.getLogger(__name__)


def build(
    conf: cfg.ConfigOpts, store: Store, dispatch: Dispatch, clock: Callable[[], float] = time.time
) -> Application:
    """The application without what may stand before it.

    :raises ConfigError: when the configuration does not let it serve
    """
    log, requests = Log(store.database), Requests()

    def failed(error: StoreError) -> None:
        LOG.error("no metrics of hosts and VMs: %s", error)
        requests.store_failed()

    parts = Parts(
        store=store,
        log=log,
        fleet_history=FleetHistory(store.database, _settle(conf)),
        dispatch=dispatch,
        enforcer=Enforcer(conf),
        hub=Hub(looker(store, log), conf.api.streams, each=conf.api.client_streams),
        requests=requests,
        figures=FleetFigures(store, conf.metrics.domains, conf.metrics.fleet_every, clock, failed),
        overhead=conf.planner.overhead_mib * MIB,
        # Without a broker there is one host, and its agent reads the same file.
        inputs=None if conf.bus.urls else host_inputs(conf),
        bus=BusWatch(conf.bus.urls),
        clock=clock,
        description=document(ROUTES),
    )
    return Application(parts, _way(conf), _buckets(conf), _at_once(conf))


def application(conf: cfg.ConfigOpts, store: Store, dispatch: Dispatch) -> Callable[..., Any]:
    """The WSGI application, with Keystone before it where the configuration says so.

    :raises ConfigError: when the configuration does not let it serve
    """
    return fronted(build(conf, store, dispatch), conf)


def fronted(built: Application, conf: cfg.ConfigOpts) -> Callable[..., Any]:
    """The application with what the configuration puts before it."""
    if conf.api.auth != "keystone":
        return built
    try:
        from memhint.api.keystone import behind_keystone
    except ImportError as error:
        raise ConfigError(None, "[api] auth", f"keystone needs keystonemiddleware: {error}") from error
    unconfirmed = Unconfirmed(_buckets(conf), _at_once(conf), KEYSTONE_HOLDS, time.monotonic)
    return behind_keystone(built, conf, unconfirmed)


def address_of(listen: str) -> tuple[str, int]:
    """Host and port of an address of [api] listen."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def _buckets(conf: cfg.ConfigOpts) -> Buckets:
    return Buckets(conf.api.rate, conf.api.burst, time.monotonic)


def _at_once(conf: cfg.ConfigOpts) -> AtOnce:
    return AtOnce(max(AT_ONCE_LEAST, conf.api.threads))


def _settle(conf: cfg.ConfigOpts) -> float:
    """Seconds until every host of a fleet has told what it looked at: its records wait for the next flush."""
    return conf.bus.flush + STALE_PERIODS * conf.period if conf.bus.urls else 0.0


def _way(conf: cfg.ConfigOpts) -> Authenticator:
    if conf.api.auth == "none":
        for listen in conf.api.listen:
            if not is_loopback(address_of(listen)[0]):
                raise ConfigError(
                    None, "[api] listen", f"{listen} with auth = none: use loopback addresses, or another auth"
                )
        return LoopbackOnly()
    if conf.api.auth == "keystone":
        return ByKeystone()
    try:
        return ByToken(Tokens(conf.api.token_file))
    except TokenFileError as error:
        raise ConfigError(None, "[api] token_file", str(error)) from error
