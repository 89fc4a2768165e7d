"""The one bulk call of a cycle: every domain's state and balloon statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libvirt

from memhint.objects.domain import DomainState
from memhint.virt.caller import Caller

_STATES = {
    libvirt.VIR_DOMAIN_RUNNING: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_BLOCKED: DomainState.RUNNING,
    libvirt.VIR_DOMAIN_PAUSED: DomainState.PAUSED,
    libvirt.VIR_DOMAIN_PMSUSPENDED: DomainState.PAUSED,
    libvirt.VIR_DOMAIN_SHUTOFF: DomainState.SHUTOFF,
    # Its guest has, and its QEMU holds the memory: for as long as a dump takes, or until somebody has looked at it.
    libvirt.VIR_DOMAIN_CRASHED: DomainState.PAUSED,
}


@dataclass(frozen=True, slots=True)
class DomainStats:
    """One domain as the bulk call has it; ``balloon`` holds libvirt's own names, in KiB."""

    uuid: str
    name: str
    state: DomainState
    balloon: Mapping[str, object]


def read_stats(caller: Caller) -> list[DomainStats]:
    """Every domain, running or not.

    NOWAIT: a domain that is busy with somebody else's job gives what needs no monitor, and delays none.

    :raises LibvirtUnavailable: without a connection
    :raises CallTimeout: when a QEMU holds the call up; the next one passes it by, for the first holds its job
    """

    def ask(connection: libvirt.virConnect) -> list[DomainStats]:
        records = connection.getAllDomainStats(
            libvirt.VIR_DOMAIN_STATS_STATE | libvirt.VIR_DOMAIN_STATS_BALLOON,
            libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
        )
        return [_record(domain, values) for domain, values in records]

    return caller.call("bulk statistics", ask)


def _record(domain: libvirt.virDomain, values: Mapping[str, object]) -> DomainStats:
    state = _STATES.get(values.get("state.state"), DomainState.OTHER)
    if state is DomainState.PAUSED and values.get("state.reason") == libvirt.VIR_DOMAIN_PAUSED_MIGRATION:
        state = DomainState.INCOMING
    balloon = {key: value for key, value in values.items() if key.startswith("balloon.")}
    return DomainStats(domain.UUIDString(), domain.name(), state, balloon)
