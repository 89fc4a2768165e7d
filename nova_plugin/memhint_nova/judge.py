"""Whether a host has room for a VM: pure, from what Nova counts and what memhint measured. All in MiB.

    used     = what Nova counts on the host: its VMs in full, those it has only just placed, and reserved_host_memory_mb
    nominal  = memory − used − VM
    unseen   = max(0, (used − reserved_host_memory_mb) − (assigned − VMs seen × overhead))
    headroom = measured headroom − unseen − VMs unseen × overhead − (VM + overhead)

`unseen` is what Nova has placed and the report does not have: a VM counts from Nova's claim on, and within one request
for several VMs from the scheduler's own choice on. Once the report has it, memhint counts it in full until it has been
observed, so what a VM has not touched yet is never promised twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from memhint_nova.claims import Said, bears_name, short_name
from memhint_nova.host import Host
from memhint_nova.keys import value_of
from memhint_nova.reason import Reason
from memhint_nova.snapshot import Snapshot
from memhint_nova.wish import Wish

_OPT_OUT = "overcommit"  # in an aggregate's metadata, too


class Compute(Protocol):
    """What is used of Nova's HostState."""

    host: str
    nodename: str
    uuid: str | None
    total_usable_ram_mb: int
    free_ram_mb: int  # negative where Nova has placed more than there is
    num_instances: int
    hypervisor_type: str | None
    aggregates: list[Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """[memhint] of nova.conf, as far as it judges. MiB and percent."""

    overhead: int
    reserved: int
    psi_limit: float | None
    pass_unknown: bool
    said: Said = field(default_factory=lambda: Said({}))


@dataclass(frozen=True, slots=True)
class Judge:
    """Holds computes against one snapshot at one moment."""

    snapshot: Snapshot
    rules: Rules
    now: float  # monotonic

    def veto(self, compute: Compute, wish: Wish) -> Reason | None:
        """Why this compute does not get the VM; None where it may."""
        found = self.known(compute)
        if isinstance(found, Reason):
            if compute.hypervisor_type == "ironic":
                return None
            if found is Reason.UNKNOWN and self.rules.pass_unknown:
                return self._against_wish(compute, wish)  # which needs nothing measured
            if compute.free_ram_mb < wish.need:
                return found
            return self._beyond_ratio(compute, wish)
        if not found.admitting:
            return Reason.SWAP_IN if "swap-in" in found.detail else Reason.PRESSURE
        rules = self.rules
        if rules.psi_limit is not None and found.psi is not None and found.psi >= rules.psi_limit:
            return Reason.PSI
        unwished = self._against_wish(compute, wish)
        if unwished is not None:
            return unwished
        return None if self.left(compute, found) >= wish.need + rules.overhead else Reason.HEADROOM

    def _against_wish(self, compute: Compute, wish: Wish) -> Reason | None:
        """What of the flavor or the aggregate keeps the VM out, whatever is measured."""
        nominal_for = wish.nominal_for
        if nominal_for is None and compute.aggregates and opted_out(compute):
            nominal_for = Reason.OPT_OUT
        if nominal_for is not None and compute.free_ram_mb < wish.need:
            return nominal_for
        return self._beyond_ratio(compute, wish)

    def known(self, compute: Compute) -> Host | Reason:
        """What is known of a compute, or why nothing is that could be used."""
        uuid, names = compute.uuid, (compute.host, compute.nodename)
        found: Host | None = None
        for one in self.snapshot.by_provider.get(uuid, ()) if uuid is not None else ():
            if not self.rules.said.speaks_for(one.name, one.provider, names):
                continue
            if found is None or found.expires < self.now:
                found = one
            elif one.expires >= self.now:
                return Reason.MISMATCH
        if found is None:
            if not self.snapshot.by_short_name:
                return Reason.NO_DATA
            return Reason.MISMATCH if self._told_of(uuid, names) else Reason.UNKNOWN
        return found if found.expires >= self.now else Reason.STALE

    def _told_of(self, uuid: str | None, names: tuple[str, ...]) -> bool:
        """Whether memhint tells of a host that is to be this compute, whatever it says of itself."""
        snapshot = self.snapshot
        for name in names:
            if any(bears_name(one, names) for one in snapshot.by_short_name.get(short_name(name), ())):
                return True
        for name in self.rules.said.hosts_of(uuid):
            known = snapshot.hosts.get(name)
            if name in snapshot.unread or (known is not None and known.provider is None):
                return True
        return False

    def left(self, compute: Compute, known: Host) -> float:
        """Measured headroom less what was placed and is not seen yet; below 0 where more was placed."""
        overhead = self.rules.overhead
        placed = compute.total_usable_ram_mb - compute.free_ram_mb - self.rules.reserved
        unseen = placed - known.assigned + known.domains * overhead
        left = known.headroom - unseen if unseen > 0 else known.headroom
        more = compute.num_instances - known.domains
        return left - more * overhead if more > 0 else left

    def weighed(self, compute: Compute) -> float:
        """What a compute has left for further VMs: measured, or nominal where nothing measured can be used."""
        known = self.known(compute)
        if isinstance(known, Reason) or (compute.aggregates and opted_out(compute)):
            return compute.free_ram_mb
        return self.left(compute, known)

    def explain(self, compute: Compute, wish: Wish, reason: Reason) -> str:
        """One veto in words, with the figures that it stands on."""
        known = self.known(compute)
        nominal = f"nominal room {compute.free_ram_mb} MiB for {wish.need}"
        if reason in (Reason.OPT_OUT, Reason.EXCLUDED_FLAVOR):
            return f"{compute.host}: {nominal}, {wish.why or 'its aggregate opts out'}"
        if reason in (Reason.CLASS_LIMIT, Reason.MAX_RATIO):
            most = wish.class_ratio if reason is Reason.CLASS_LIMIT else wish.max_ratio
            return f"{compute.host}: ratio {_ratio(compute, wish):.3f} with the VM, at most {most:g}"
        if isinstance(known, Reason):
            return f"{compute.host}: {nominal}"
        if reason in (Reason.PRESSURE, Reason.SWAP_IN):
            return f"{compute.host}: {known.detail}"
        if reason is Reason.PSI:
            return f"{compute.host}: {known.psi:.1f} %"
        left = self.left(compute, known)
        return (
            f"{compute.host}: headroom {known.headroom:.0f} MiB, {known.headroom - left:.0f} of it placed and not seen "
            f"yet, for {wish.need} + {self.rules.overhead}"
        )

    @staticmethod
    def _beyond_ratio(compute: Compute, wish: Wish) -> Reason | None:
        if wish.max_ratio is None and wish.class_ratio is None:
            return None
        ratio = _ratio(compute, wish)
        if wish.class_ratio is not None and ratio > wish.class_ratio:
            return Reason.CLASS_LIMIT
        return Reason.MAX_RATIO if wish.max_ratio is not None and ratio > wish.max_ratio else None


def opted_out(compute: Compute) -> bool:
    """True where one of the compute's aggregates opts out of promising what VMs do not use, or misspells its word."""
    return any(value_of(aggregate.metadata, _OPT_OUT)[0] == "deny" for aggregate in compute.aggregates)


def _ratio(compute: Compute, wish: Wish) -> float:
    total = compute.total_usable_ram_mb
    return (total - compute.free_ram_mb + wish.need) / total if total > 0 else float("inf")


def tally(vetoes: Mapping[Reason, list[Compute]]) -> dict[str, int]:
    """How many of each."""
    return {str(reason): len(computes) for reason, computes in vetoes.items()}
