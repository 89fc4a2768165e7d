"""Which allocation ratio a compute host should have in Placement. Pure: what is known in, one decision out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from memhint.objects.provider import SAME, Provider, ProviderRecord, Tenure
from memhint.objects.units import MIB
from memhint.planner.ratio import QUANTUM, ratio


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """A host as its newest report tells. Bytes."""

    host: str
    provider: str | None
    forced_ratio: float | None
    stale: bool  # nothing for three periods, or marked silent
    headroom: int
    slot: int  # of the VM that places are counted in, with QEMU's overhead
    slot_overhead: int  # QEMU's part of it
    memory: Mapping[str, int] = field(default_factory=dict)  # plugged into each VM that the plan counted, by UUID
    epoch: str = ""
    sequence: int = -1
    heard: bool = True  # False: it is stale, and for so long nobody could have kept anything newer
    vouched: bool = True  # False: no report speaks of the provider any more, and so this is no plan


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """``most`` is the largest ratio that is ever written, ``quantum`` the steps it moves in.

    ``smallest``: bytes of the smallest VM that comes to the hosts, without QEMU's overhead.
    ``providers``: the operator's word, UUID of the provider by name of the host, where the two bear different names.
    """

    most: float = 1.5
    quantum: float = QUANTUM
    smallest: int = 256 * MIB
    providers: Mapping[str, str] = field(default_factory=dict)


class DecisionReason(StrEnum):
    """What a decision follows from."""

    HEADROOM = "headroom"
    SILENT = "silent"  # the host is not heard of
    UNCHANGED = "unchanged"  # it stands there already
    FORCED = "ram_allocation_ratio"  # nova-compute writes its own
    FOREIGN = "foreign"  # somebody else has changed it
    SHARED = "shared"  # two hosts bear the name of one provider
    UNVERIFIED = "unverified"  # the host claims a provider that bears another name
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done. ``ratio`` None: nothing is written."""

    tenure: Tenure
    why: DecisionReason
    ratio: float | None = None
    detail: str = ""


def decide(view: HostCapacity, known: Provider, standing: ProviderRecord, settings: WriterSettings) -> Decision:
    """The ratio, or why none is written.

    (N + H') / (total − reserved), where N counts the claims of those VMs that the plan behind the headroom H has
    counted, each at most at the memory it really has. A claim that the plan does not know yet, or the growing half of
    a resize, thus has to fit into H'. H' is H less QEMU's overhead for as many of the smallest VMs as fit into H.
    """
    now = known.inventory.ratio
    if standing.tenure is Tenure.RELEASED:
        return Decision(Tenure.RELEASED, DecisionReason.RELEASED, detail=standing.detail)
    unset = ""
    if view.forced_ratio is not None:
        unset = f"unset [DEFAULT] ram_allocation_ratio ({view.forced_ratio:g}) on {view.host}, then adopt it"
        if not _left_there(now, standing) or abs(now - view.forced_ratio) < SAME:
            return Decision(Tenure.REFUSED, DecisionReason.FORCED, detail=unset)
    if not standing.ours(now):
        detail = f"memhint left {standing.adopted if standing.written is None else standing.written:g}, found {now:g}"
        return Decision(Tenure.CONFLICT, DecisionReason.FOREIGN, detail=detail)
    if view.stale:
        # Silence lowers and never raises: the host may have said last that it has no room.
        wanted, tenure, why = min(nominal(standing), settings.most, now), Tenure.NOMINAL, DecisionReason.SILENT
    else:
        wanted, tenure, why = _wanted(view, known, settings), Tenure.MANAGED, DecisionReason.HEADROOM
    if view.forced_ratio is not None:
        # nova-compute may not have read its file again for long. Until it has, memhint's own ratio lets VMs in.
        wanted, tenure = min(wanted, now), Tenure.REFUSED
    # What is too much is lowered by however little. Less than SAME is a database's rounding.
    if now - wanted < SAME and wanted - now < settings.quantum / 2:
        return Decision(tenure, DecisionReason.UNCHANGED, detail=unset)
    return Decision(tenure, why, wanted, f"{now:g} -> {wanted:g}")


def nominal(standing: ProviderRecord) -> float:
    """The ratio of a host of which nothing is known."""
    return min(1.0, standing.adopted)


def _left_there(now: float, standing: ProviderRecord) -> bool:
    """Whether the ratio is memhint's own writing, and not the one that was found."""
    return (standing.written is not None or standing.intended is not None) and standing.ours(now)


def _wanted(view: HostCapacity, known: Provider, settings: WriterSettings) -> float:
    counted = sum(
        min(claimed, view.memory[uuid] // MIB) for uuid, claimed in known.allocations.items() if uuid in view.memory
    )
    # Placement counts no overhead, so each MiB that it may claim has to bring its part of one.
    smallest = max(0, min(settings.smallest, view.slot - view.slot_overhead))
    whole = smallest + view.slot_overhead
    room = max(0, view.headroom) * smallest // whole // MIB if whole > 0 else 0
    inventory = known.inventory
    return ratio(counted, room, inventory.total, inventory.reserved, settings.most, settings.quantum)
