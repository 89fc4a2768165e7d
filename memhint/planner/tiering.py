"""Which ranges of VMs' memory go to which NUMA node: hot ones to fast nodes, cold ones to slow nodes, a scattered VM to
one node. Each VM keeps within its share of the fast nodes.

Room is made before it is taken: each promotion comes behind the demotions that it needs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.heat import Heat, HeatMap, NodeRange
from memhint.objects.policy import Policy
from memhint.objects.units import MIB, mib
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.objects.words import Word

BLOCK = 2 * MIB
"""What is moved at least: a huge page moves as a whole."""
UNLIMITED = 1 << 62
_LOOKS = 5_000_000  # at what could make room, in one choice: guests have a say in how scattered their memory lies
_PART = BLOCK // 4  # of a block: what a range has to cover of it to count for it, unless it ends there
_SCATTERED = 64 * MIB  # less than this, or a twentieth of the VM, is not worth to be gathered


class MoveReason(Word):
    """What a move is for."""

    PROMOTE = "promote"
    DEMOTE = "demote"
    GATHER = "gather"


@dataclass(frozen=True, slots=True)
class Share:
    """What a VM may and must have of the fast nodes, in bytes."""

    least: int = 0
    most: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class TieringPlan:
    """Whose memory may be moved. ``refused`` has why not, of those that are asked for and contradict themselves."""

    members: Mapping[str, Share] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Piece:
    """A range that lies on one node, of whole blocks, and what is known of its use."""

    start: int
    end: int
    node: int
    bytes: int  # of it that have memory
    busy: float = 0.0  # seconds for which it has been in use all the time
    idle: float | None = None  # seconds for which it has not been touched; None: not known

    @property
    def blocks(self) -> int:
        """How many there are of them."""
        return (self.end - self.start) // BLOCK


@dataclass(frozen=True, slots=True)
class VmMemory:
    """One VM's memory. ``nodes`` are those on which it may lie, ``home`` those on which it may be gathered."""

    uuid: str
    pieces: Sequence[Piece]
    nodes: frozenset[int]
    share: Share = Share()
    home: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Tiers:
    """The nodes with memory, and the bytes that each may still take; negative where it has less free than it should."""

    fast: tuple[int, ...]
    slow: tuple[int, ...]  # the faster first
    room: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """How much is moved in one pass, and what counts as hot and cold."""

    most: int  # bytes
    hot: float = 20.0  # seconds in use
    cold: float = 300.0  # seconds untouched, of what goes down for nothing but room
    exchange: float = 30.0  # seconds untouched, of what goes down for something hot


@dataclass(frozen=True, slots=True)
class Move:
    """One range to another node."""

    uuid: str
    start: int
    end: int
    bytes: int
    node: int
    why: MoveReason


def plan_tiering(
    domains: Iterable[DomainObservation], policies: Mapping[str, Policy], unread: frozenset[str]
) -> TieringPlan:
    """The VMs whose policy allows it, with their shares of the fast nodes."""
    members, refused = {}, {}
    for one in domains:
        policy = policies[one.uuid]
        if not policy.tiering or one.uuid in unread or one.state is not DomainState.RUNNING:
            continue
        share = Share(policy.fast_min(one.facts.memory), policy.fast_max(one.facts.memory))
        if share.least > share.most:
            refused[one.uuid] = f"fast_min of {mib(share.least)} MiB is more than fast_max of {mib(share.most)} MiB"
        else:
            members[one.uuid] = share
    return TieringPlan(members, refused)


def pieces_of(lying: Iterable[NodeRange], heat: HeatMap | None) -> tuple[Piece, ...]:
    """What lies where, divided by how it is used. A block of which only parts are in use counts as in use.

    DAMON's ranges end anywhere. One that lies across the end of a block was sampled in the next one, too: what it says
    would keep cold blocks beside hot ones where they are. So it counts only for blocks of which it covers a good part.

    :param lying: by address
    """
    ranges = heat.ranges if heat is not None else ()
    starts = [one.start for one in ranges]
    found = []
    for run in lying:
        each, start = run.bytes / ((run.end - run.start) // BLOCK), run.start
        while start < run.end:
            first = max(0, bisect_right(starts, start) - 1)
            end = start + BLOCK
            within = [one for one in ranges[first : bisect_left(starts, end)] if one.end > start]
            if len(within) == 1 and within[0].start <= start:
                end = max(end, within[0].end // BLOCK * BLOCK)
            elif not within:
                after = bisect_right(starts, start)
                end = max(end, starts[after] // BLOCK * BLOCK) if after < len(starts) else run.end
            end = min(end, run.end)
            telling = [one for one in within if _tells_of(one, start, end)] or within
            busy = max((one.busy for one in telling), default=0.0)
            idle = min((one.idle for one in telling), default=None)
            found.append(Piece(start, end, run.node, int(each * ((end - start) // BLOCK)), busy, idle))
            start = end
    return tuple(found)


def _tells_of(one: Heat, start: int, end: int) -> bool:
    """Whether a range lies within these blocks, or covers enough of them."""
    covers = min(one.end, end) - max(one.start, start)
    return covers >= min(_PART, one.end - one.start)


def beyond(members: Mapping[str, Share], fast: int) -> str | None:
    """Why the minimums of all VMs cannot be kept, on fast nodes of so many bytes; None where they can."""
    asked = sum(share.least for share in members.values())
    if asked <= fast:
        return None
    return f"the fast_min of all VMs come to {mib(asked)} MiB, and the fast nodes have {mib(fast)} MiB"


def choose(vms: Sequence[VmMemory], tiers: Tiers, limits: MoveLimits) -> tuple[Move, ...]:
    """What to move, in this order, ``limits.most`` bytes at most.

    First who has more than its share of the fast nodes gives some up, the coldest of it. Then who has less gets some,
    its hottest. Then what is hot comes up, the hottest first, as far as there is room or something colder to put in its
    place. Then fast nodes that have too little free give up what is cold. In the end scattered VMs are gathered.
    """
    chooser = _Chooser(vms, tiers, limits)
    if tiers.slow:
        chooser.hold_to_shares()
        chooser.fill_shares()
        chooser.raise_hot()
        chooser.keep_free()
    chooser.gather()
    return tuple(chooser.moves)


@dataclass(slots=True)
class _Left:
    """What is left of a piece, of which blocks are taken from the front."""

    uuid: str
    start: int
    node: int
    blocks: int
    each: float  # bytes of a block
    busy: float
    idle: float | None

    @property
    def bytes(self) -> int:
        return int(self.blocks * self.each)


class _Chooser:
    """The books while it is chosen."""

    def __init__(self, vms: Sequence[VmMemory], tiers: Tiers, limits: MoveLimits) -> None:
        self.moves: list[Move] = []
        self._vms = {vm.uuid: vm for vm in vms}
        self._tiers = tiers
        self._limits = limits
        self._budget = limits.most
        self._looks = _LOOKS
        self._room = dict(tiers.room)
        self._fast = frozenset(tiers.fast)
        self._left = [
            _Left(vm.uuid, one.start, one.node, one.blocks, one.bytes / one.blocks, one.busy, one.idle)
            for vm in vms
            for one in vm.pieces
            if one.blocks and one.bytes
        ]
        self._held = dict.fromkeys(self._vms, 0)
        for one in self._left:
            self._held[one.uuid] += one.bytes if one.node in self._fast else 0
        # What is to go comes first: the coldest of fast nodes, the hottest of slow ones. What is not known stays.
        known = [one for one in self._left if one.idle is not None]
        self._above = sorted((one for one in known if one.node in self._fast), key=_coldest)
        self._below = sorted((one for one in known if one.node in tiers.slow), key=_hottest)

    def hold_to_shares(self) -> None:
        """Down with what is beyond a VM's share, and nothing in place of a colder block that does not fit now."""
        full: set[str] = set()
        for one in self._above:
            over = self._held[one.uuid] - self._vms[one.uuid].share.most
            if over > 0 and one.uuid not in full:
                self._demote(one, over)
                if one.blocks:
                    full.add(one.uuid)

    def fill_shares(self) -> None:
        """Up with what a VM is short of, in the place of whatever is the coldest of others.

        In whole blocks: what is left of it is not made up with something colder, for which the next look would bring
        back what did not fit.
        """
        full: set[str] = set()
        for one in self._below:
            short = self._vms[one.uuid].share.least - self._held[one.uuid]
            if short > 0 and one.uuid not in full:
                self._promote(one, ceil(short / one.each) * one.each, idle=0.0)
                if one.blocks:
                    full.add(one.uuid)

    def raise_hot(self) -> None:
        """Up with what is in use."""
        for one in self._below:
            if one.busy >= self._limits.hot:
                self._promote(one, one.bytes, idle=self._limits.exchange)

    def keep_free(self) -> None:
        """Down with what is cold, where fast nodes have too little free."""
        for one in self._above:
            if (short := -self._room[one.node]) > 0 and _idle(one) >= self._limits.cold:
                self._demote(one, short, self._spare(one.uuid))

    def gather(self) -> None:
        """Bring a VM together whose memory lies on several fast nodes, where one has room for all of it."""
        found = [(vm, where) for vm in self._vms.values() if vm.home and (where := self._scattered(vm)) is not None]
        for vm, (home, _) in sorted(found, key=lambda each: each[1][1]):
            for one in self._left:
                if one.uuid == vm.uuid and one.node in self._fast and one.node != home:
                    self._take(one, one.bytes, UNLIMITED, home, MoveReason.GATHER)

    def _scattered(self, vm: VmMemory) -> tuple[int, int] | None:
        """Where it goes and how many bytes that is; None where it is together, or no node has room for it."""
        by_node = dict.fromkeys(self._tiers.fast, 0)
        for one in self._left:
            if one.uuid == vm.uuid and one.node in by_node:
                by_node[one.node] += one.bytes
        whole = sum(by_node.values())
        for home in sorted(vm.home & vm.nodes & by_node.keys(), key=lambda node: (-by_node[node], node)):
            rest = whole - by_node[home]
            if rest < max(_SCATTERED, whole // 20):
                return None
            if self._room[home] >= rest:
                return home, rest
        return None

    def _promote(self, one: _Left, size: float, *, idle: float) -> None:
        """:param idle: seconds for which that must not have been touched which makes room"""
        share = self._vms[one.uuid].share
        nodes = [node for node in self._tiers.fast if node in self._vms[one.uuid].nodes]
        for node in sorted(nodes, key=lambda node: (-self._room[node], node)):
            size = min(size, one.bytes, self._budget)
            # Blocks differ, and what goes down is a part of one more than must go: that brings nothing back up.
            own = left if (left := share.most - self._held[one.uuid]) >= BLOCK else 0
            # of its own, where it has all that it may have
            if self._free_up(node, size - own, idle, size, one, own=True):
                own = share.most - self._held[one.uuid]
            self._free_up(node, size - self._room[node], idle, size, one, own=False)
            size -= self._take(one, size, min(size, own), node, MoveReason.PROMOTE)

    def _free_up(self, node: int, size: float, idle: float, keep: float, for_: _Left, *, own: bool) -> int:
        """Demote what is cold enough from a node, and colder than what comes in its place; how many bytes.

        :param keep: bytes of the budget that are for what comes
        """
        freed = 0
        for one in self._above:
            wanted = min(size - freed, self._budget - keep)
            if wanted <= 0 or self._looks <= 0 or _idle(one) < idle:
                break  # what follows was touched later still
            self._looks -= 1
            same = one.uuid == for_.uuid
            if one.node != node or not one.blocks or (own and not same) or one.busy >= for_.busy:
                continue
            # A VM exchanges its own where it has its minimum, and keeps that: blocks differ, and less may come than
            # goes. On a node that has too little free nothing comes.
            spare = self._spare(one.uuid)
            exchanged = same and spare >= 0 and self._room[node] >= 0
            freed += self._demote(one, wanted, self._beyond(one.uuid) + keep if exchanged else spare)
        return freed

    def _spare(self, uuid: str) -> int:
        """What of a VM may go for others, or for room. A part of a block is not: it came with the rest of its block."""
        spare = self._beyond(uuid)
        return 0 if self._vms[uuid].share.least and 0 < spare < BLOCK else spare

    def _beyond(self, uuid: str) -> int:
        """Bytes that a VM has on fast nodes beyond its minimum; negative where it lacks some."""
        return self._held[uuid] - self._vms[uuid].share.least

    def _demote(self, one: _Left, size: float, most: float = UNLIMITED) -> int:
        for node in self._tiers.slow:
            if node in self._vms[one.uuid].nodes and (taken := self._take(one, size, most, node, MoveReason.DEMOTE)):
                return taken
        return 0

    def _take(self, one: _Left, size: float, most: float, node: int, why: MoveReason) -> int:
        """Note a move of blocks of at least ``size`` bytes, as far as there are; never of more than ``most``.

        What it comes to, in bytes.
        """
        if one.blocks <= 0 or size <= 0:
            return 0
        fit = int(min(most, self._budget, self._room[node]) / one.each)
        count = min(one.blocks, ceil(size / one.each), fit)
        if count <= 0:
            return 0
        taken, end = int(count * one.each), one.start + count * BLOCK
        self.moves.append(Move(one.uuid, one.start, end, taken, node, why))
        self._budget -= taken
        self._room[node] -= taken
        self._room[one.node] += taken
        self._held[one.uuid] += taken * ((node in self._fast) - (one.node in self._fast))
        one.start, one.blocks = end, one.blocks - count
        return taken


def _idle(one: _Left) -> float:
    return -1.0 if one.idle is None else one.idle


def _coldest(one: _Left) -> tuple[float, float]:
    return -_idle(one), one.busy


def _hottest(one: _Left) -> tuple[float, float]:
    return -one.busy, _idle(one)


def not_this_vm(one: DomainObservation) -> Verdict | None:
    """Why nothing of a VM is moved, whatever its memory is; None where it may be."""
    facts = one.facts
    if one.process is None:
        return Verdict(Answer.PENDING, Reason.NOT_RUNNING, f"the VM is {one.state}")
    if facts.hugepages:
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "its memory is on explicit huge pages, which are left alone")
    if facts.locked or facts.vfio or facts.confidential:
        return Verdict(Answer.UNSUPPORTED, Reason.DEVICE, "its memory cannot be moved: locked, pinned or encrypted")
    if facts.realtime:
        return Verdict(Answer.REFUSED, Reason.EXCLUDED, "its CPUs wait while a page is moved: they are real time")
    if facts.numa_strict and len(facts.numa_nodes) < 2:
        bound = "to one node" if facts.numa_nodes else "to nodes that its XML does not name"
        return Verdict(Answer.UNSUPPORTED, Reason.ONE_NODE, f"its XML binds its memory {bound}")
    return None
