"""How a wish gets to the agent that fulfils it: kept in the store first, then told, and told again until it shows.

On a single host the agent reads the store. In a fleet it is sent a command at once; where that fails, the controllers
send it with the host's next report.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from oslo_config import cfg

from memhint.bus.asker import Asker
from memhint.bus.commands import CommandStatus, Reply
from memhint.bus.courier import Command
from memhint.bus.errors import BusError
from memhint.bus.settings import link_settings
from memhint.controller.messages import interrupt_command, policy_command, reclaim_command
from memhint.controller.reconcile import operators
from memhint.objects.policy import KEYS, Origin, parse_policy
from memhint.objects.reclaim import Reclaim, ReclaimRequest
from memhint.objects.report import DomainReport
from memhint.objects.summary import DomainSummary
from memhint.store import Store
from memhint.store.central_policies import Wishes
from memhint.store.reclaims import HostReclaim

LOG = logging.getLogger(__name__)


class NoSuchDomain(LookupError):
    """No host has this VM."""


class WishedOnHost(Exception):
    """An operator's wishes stand on the host itself, and a change that does not name them would drop them."""


class NoSuchReclaim(LookupError):
    """There is no such request."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Whether the agent has it by now; what it does of it, its reports show. It is kept either way."""

    taken: bool
    detail: str = ""
    refused: bool = False  # it was reached, and does not take it


_AT_ITS_AGENT = Delivery(True, "the agent takes it up in its next cycle")  # of a single host, which shares the store


class Dispatch(Protocol):
    """Wishes of operators, whoever fulfils them. Every method raises StoreError when the store fails."""

    def set_policy(self, uuid: str, values: Mapping[str, str | None]) -> Delivery:
        """Change an operator's wishes for one VM, all or none; None takes one back.

        :raises PolicyError: on an unknown key or value, or where they would contradict each other
        :raises NoSuchDomain: where no host has this VM and there is no wish for it
        :raises WishedOnHost: where something is wished on its host that ``values`` does not name
        """

    def clear_policy(self, uuid: str) -> Delivery:
        """Take all of an operator's wishes for one VM back, those too that cannot be read.

        :raises NoSuchDomain: where no host has this VM and there is no wish for it
        """

    def reclaim(self, request: ReclaimRequest) -> tuple[HostReclaim, Delivery]:
        """Queue a request; as it is kept, and whether its agent was told.

        :raises ReclaimError: on one that no guest could be asked
        :raises NoSuchDomain: where no host has this VM
        """

    def interrupt(self, request: str, why: str) -> tuple[HostReclaim, Delivery]:
        """Take a request back by its id; one that has ended stays as it ended. The result is as of ``reclaim``.

        :raises NoSuchReclaim: where there is none
        """

    def close(self) -> None:
        """Let go of everything."""


class EmbeddedDispatch:
    """The Dispatch of a single host, whose agent shares the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def set_policy(self, uuid: str, values: Mapping[str, str | None]) -> Delivery:
        """See Dispatch."""
        wished, unset = _parts(values)
        self._find(uuid)
        self._store.policies.set_operator(uuid, wished, unset)
        return _AT_ITS_AGENT

    def clear_policy(self, uuid: str) -> Delivery:
        """See Dispatch."""
        self._find(uuid)
        self._store.policies.replace(uuid, Origin.OPERATOR, {})
        return _AT_ITS_AGENT

    def _find(self, uuid: str) -> None:
        stored = self._store.policies.read(uuid)
        if self._store.domains.one(uuid) is None and not stored.inputs and not stored.unreadable:
            raise NoSuchDomain(uuid)

    def reclaim(self, request: ReclaimRequest) -> tuple[HostReclaim, Delivery]:
        """See Dispatch."""
        line = self._store.domains.one(request.uuid)
        if line is None:
            raise NoSuchDomain(request.uuid)
        self._store.reclaims.add(Reclaim(request), line.host)
        return _found(self._store, request.id), _AT_ITS_AGENT

    def interrupt(self, request: str, why: str) -> tuple[HostReclaim, Delivery]:
        """See Dispatch."""
        _found(self._store, request)
        self._store.reclaims.interrupt(request, why)
        return _found(self._store, request), _AT_ITS_AGENT

    def close(self) -> None:
        """See Dispatch."""


class FleetDispatch:
    """The Dispatch of a fleet. For several threads; a command waits for the one before."""

    def __init__(self, store: Store, ask: Callable[[Command], Reply], wall: Callable[[], float] = time.time) -> None:
        """:param ask: sends a command and waits for its answer; raises BusError."""
        self._store = store
        self._ask = ask
        self._wall = wall

    def set_policy(self, uuid: str, values: Mapping[str, str | None]) -> Delivery:
        """See Dispatch."""
        wished, unset = _parts(values)
        line = self._store.domains.one(uuid)
        if self._store.central_policies.of(uuid) is None:
            if line is None:
                raise NoSuchDomain(uuid)
            check_named(line.host, self._on_host(line.host, uuid), values)
        return self._tell(line, self._store.central_policies.set(uuid, wished, unset))

    def clear_policy(self, uuid: str) -> Delivery:
        """See Dispatch."""
        line = self._store.domains.one(uuid)
        if line is None and self._store.central_policies.of(uuid) is None:
            raise NoSuchDomain(uuid)
        return self._tell(line, self._store.central_policies.clear(uuid))

    def reclaim(self, request: ReclaimRequest) -> tuple[HostReclaim, Delivery]:
        """See Dispatch."""
        line = self._store.domains.one(request.uuid)
        if line is None:
            raise NoSuchDomain(request.uuid)
        self._store.reclaims.add(Reclaim(request), line.host)
        queued = _found(self._store, request.id)
        delivery = self._deliver(reclaim_command(queued, self._wall(), self._epoch(line.host)))
        return _found(self._store, request.id), delivery

    def interrupt(self, request: str, why: str) -> tuple[HostReclaim, Delivery]:
        """See Dispatch."""
        one = _found(self._store, request)
        if one.reclaim.state.ended:
            return one, Delivery(True, "it has ended already")
        self._store.reclaims.interrupt(request, why)
        delivery = self._deliver(interrupt_command(one, why, self._wall(), self._epoch(one.host)))
        return _found(self._store, request), delivery

    def close(self) -> None:
        """See Dispatch."""

    def _tell(self, line: DomainSummary | None, wishes: Wishes) -> Delivery:
        if line is None:
            return Delivery(False, "no host has this VM now: it is told with the first report that shows it")
        return self._deliver(policy_command(line.host, wishes, self._epoch(line.host)))

    def _deliver(self, command: Command) -> Delivery:
        try:
            reply = self._ask(command)
        except BusError as error:
            LOG.info("%s to %s is told later: %s", command.name, command.host, error)
            return Delivery(False, f"{error}; it is told when {command.host} reports")
        if reply.outcome is CommandStatus.EPOCH:
            return Delivery(False, f"{reply.detail}; it is told when {command.host} reports")
        if reply.outcome is not CommandStatus.DONE:
            LOG.error("%s refuses %s: %s", command.host, command.name, reply.detail)
            return Delivery(False, f"{command.host} does not take it: {reply.detail}", refused=True)
        return Delivery(True)

    def _epoch(self, host: str) -> str | None:
        line = self._store.hosts_view.one(host)
        return None if line is None else line.epoch

    def _on_host(self, host: str, uuid: str) -> DomainReport | None:
        report = self._store.reports.newest(host)
        told = () if report is None else report.domains
        return next((one for one in told if one.observation.uuid == uuid), None)


def dispatch_of(conf: cfg.ConfigOpts, store: Store) -> Dispatch:
    """The Dispatch that a configuration asks for: with ``[bus] urls`` a fleet's, else a single host's."""
    if not conf.bus.urls:
        return EmbeddedDispatch(store)
    asker = Asker(link_settings(conf), conf.controller.command_deadline)
    return _Asking(store, asker)


def check_named(host: str, one: DomainReport | None, values: Collection[str]) -> None:
    """Whether a first change names all that is wished on the host itself.

    :param one: what the host tells of the VM
    :raises WishedOnHost: where it does not, or where the host cannot read all of it: then nobody can name it
    """
    if one is None:
        return
    if one.careful:
        raise WishedOnHost(
            f"{host} has a wish of an operator that it cannot read, and a change would drop it: say it again there, or"
            " take back all that is wished (DELETE; memhint policy clear) and then say what holds"
        )
    if left := {name: value for name, value in operators(one.policy).items() if name not in values}:
        said = ", ".join(f"{name}={value}" for name, value in sorted(left.items()))
        raise WishedOnHost(
            f"on {host} an operator wishes {said}; after this change only the fleet's wishes hold, and what a host says"
            " is not taken over: give each of these keys a value, too, or null for none"
        )


class _Asking(FleetDispatch):
    def __init__(self, store: Store, asker: Asker) -> None:
        super().__init__(store, asker.ask)
        self._asker = asker

    def close(self) -> None:
        self._asker.close()


def _parts(values: Mapping[str, str | None]) -> tuple[dict[str, str], list[str]]:
    unset = [name for name, value in values.items() if value is None]
    for name in unset:
        if name not in KEYS:
            parse_policy([(name, "")])  # says which keys there are
    return parse_policy((name, value) for name, value in values.items() if value is not None), unset


def _found(store: Store, request: str) -> HostReclaim:
    one = store.reclaims.find(request)
    if one is None:
        raise NoSuchReclaim(request)
    return one
