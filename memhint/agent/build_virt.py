"""The connections to libvirt that an agent has, and why it has several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oslo_config import cfg

from memhint.virt.agent_command import AgentConnections
from memhint.virt.caller import Caller
from memhint.virt.connection import Connection, Event
from memhint.virt.definitions import Definitions

MERGE_TIMEOUT = 300.0  # seconds: switching merge off copies every merged page of the guest


@dataclass(frozen=True, slots=True)
class Virt:
    """libvirt's connections, each with callers that outlive a libvirtd that hangs."""

    caller: Caller
    slow: Caller  # for what copies pages of a guest
    counting: Caller  # for QEMU's counters, and for marks: both wait where a VM is busy
    agents: AgentConnections
    connections: tuple[Connection | AgentConnections, ...]
    definitions: Definitions


def build_virt(conf: cfg.ConfigOpts, listen: Callable[[Event], None]) -> Virt:
    """Connect; ``listen`` is told of every event, on libvirt's thread."""
    connection = Connection(conf.virt.uri, listen)
    monitors = Connection(conf.virt.uri)
    counting = Connection(conf.virt.uri)
    agents = AgentConnections(conf.virt.uri, conf.guest.in_flight)
    caller = Caller(connection, conf.virt.stats_timeout)
    return Virt(
        caller=caller,
        slow=Caller(monitors, MERGE_TIMEOUT),
        counting=Caller(counting, conf.virt.stats_timeout),
        agents=agents,
        connections=(connection, monitors, counting, agents),
        definitions=Definitions(caller, conf.virt.refresh),
    )
