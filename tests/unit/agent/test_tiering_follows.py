"""How soon memory follows what is in use: reader, watch, lever and rule as shipped; DAMON and VMs are played.

Only the kernel is played: windows end a little late, each range's state is that of one page of it, and a question is
answered at the end of a window. Ranges are those that the watch asks for: they end anywhere within blocks. Time is a
number here, so an hour takes a second.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import pytest

from memhint.agent.active_reads import APART, ActiveReads
from memhint.kernel import damon_watch
from memhint.kernel.damon import Pattern, Region
from memhint.kernel.damon_watch import DamonWatch
from memhint.kernel.guest_ram import GuestRam, Span
from memhint.kernel.root import KernelRoot
from memhint.levers.lever import PassResult
from memhint.levers.tiering import TieringLever, TieringSettings
from memhint.objects.active import ActiveSource
from memhint.objects.heat import HeatMap, NodeRange
from memhint.objects.units import MIB
from memhint.objects.verdict import Answer, Verdict
from memhint.planner.tiering import BLOCK, MoveLimits, Share, TieringPlan, Tiers, VmMemory, choose, pieces_of
from tests.unit import builders

START = 1 << 40
BLOCKS = 32  # of a VM
REGIONS = 250  # of a VM: 66 pages each, of a block's 512
FIRST = 420.0  # seconds in which it is found out what is hot in the beginning
FAST, SLOW = 0, 1
Hot = frozenset[tuple[int, int]]
"""VM and block."""


class World:
    """VMs whose hot blocks change at known moments, half of their memory on the fast node, and a DAMON that watches."""

    def __init__(self, hots: Sequence[Sequence[int]], seconds: Sequence[float], seed: int, used: float) -> None:
        """:param hots: by phase, how many blocks of each VM are hot
        :param used: share of the pages of a hot range that are used
        """
        self.dice = random.Random(seed)
        self.now = 1000.0 + self.dice.random()
        self.vms = len(hots[0])
        self.begins = [self.now + at for at in accumulate([0.0, *seconds])]
        self.used = used
        self.moved = 0
        self.fast = {(vm, block): vm < self.vms / 2 for vm in range(self.vms) for block in range(BLOCKS)}
        self.hot: list[Hot] = []
        for counts in hots:
            self.hot.append(self._next(counts, self.hot[-1] if self.hot else frozenset()))
        self._slots: dict[int, _Slot] = {}

    def _next(self, counts: Sequence[int], before: Hot) -> Hot:
        """Others than before, as far as there are."""
        found = set()
        for vm, count in enumerate(counts):
            order = sorted(range(BLOCKS), key=lambda block: ((vm, block) in before, self.dice.random()))
            found |= {(vm, block) for block in order[:count]}
        return frozenset(found)

    def phase(self, at: float) -> int:
        return max(place for place in range(len(self.hot)) if place == 0 or at >= self.begins[place])

    @property
    def on_fast(self) -> float:
        """Share of what is hot now."""
        hot = self.hot[self.phase(self.now)]
        return sum(self.fast[one] for one in hot) / len(hot)

    def start(
        self, pid: int, regions: Sequence[Span], window_us: int, patterns: Sequence[Pattern], *, fixed: bool = False
    ) -> int:
        self._slots[pid] = _Slot(self.now, window_us / 1e6 + 0.01, regions, patterns)
        return pid

    def stop(self, slot: int) -> None:
        self._slots.pop(slot, None)

    def tells_regions(self, slot: int) -> bool:
        return True

    def cpu(self, slot: int) -> float:
        return 0.0

    def counted(self, slot: int) -> tuple[int, ...]:
        return tuple(self._ended(slot).sums)

    def regions(self, slot: int) -> tuple[Region, ...]:
        one = self._ended(slot)
        seen = zip(one.ranges, one.seen, strict=True)
        return tuple(Region(span.start, span.end, int(touched), age) for span, (touched, age) in seen)

    def _ended(self, slot: int) -> _Slot:
        """Wait for the end of a window, and be told of it up to a tenth of a second later."""
        one = self._slots[slot]
        windows = int((self.now - one.began) / one.window) + 1
        self.now = one.began + windows * one.window + self.dice.uniform(0.01, 0.11)
        while one.windows < windows:
            one.windows += 1
            end = one.began + one.windows * one.window
            hot = self.hot[self.phase(end)] | self.hot[self.phase(end - one.window)]
            stray = self.dice.randrange(1, len(one.ranges))  # a cold range that is used a little
            one.see([place == stray or self._touched(slot, span, hot) for place, span in enumerate(one.ranges)])
        return one

    def _touched(self, vm: int, span: Span, hot: Hot) -> bool:
        """One page of it, wherever that is."""
        address = span.start + int(self.dice.random() * span.size)
        return (vm, (address - START) // BLOCK) in hot and self.dice.random() < self.used


class _Slot:
    """One watched VM: for how many windows each range has been touched, or not."""

    def __init__(self, began: float, window: float, ranges: Sequence[Span], patterns: Sequence[Pattern]) -> None:
        self.began, self.window, self.ranges, self.patterns = began, window, ranges, patterns
        self.windows = 0
        self.seen = [(False, 0)] * len(ranges)
        self.sums = [0] * len(patterns)

    def see(self, touched: Sequence[bool]) -> None:
        self.seen = [
            (now, age + 1 if now == before else 0) for now, (before, age) in zip(touched, self.seen, strict=True)
        ]
        for place, pattern in enumerate(self.patterns):
            (low, high), (young, old) = pattern.accesses, pattern.age
            self.sums[place] += sum(
                span.size
                for span, (now, age) in zip(self.ranges, self.seen, strict=True)
                if low <= now <= high and young <= age <= old
            )


class Lever(TieringLever):
    """With the world's memory: what is chosen lies there at once."""

    def __init__(self, world: World, reads: ActiveReads, settings: TieringSettings) -> None:
        super().__init__(
            KernelRoot(), reads.heat, lambda total: 0, settings, lambda: world.now, lambda _: None, lambda: 0.0
        )
        self._world = world

    def _pass(self, members: Any, domains: Any, heat: Mapping[str, HeatMap], *, dry_run: bool) -> PassResult:
        world, set_ = self._world, self._settings
        vms = []
        for vm in range(world.vms):
            lying = [
                NodeRange(START + block * BLOCK, START + (block + 1) * BLOCK, SLOW - world.fast[vm, block], BLOCK)
                for block in range(BLOCKS)
            ]
            vms.append(VmMemory(str(vm), pieces_of(lying, heat.get(str(vm))), frozenset({FAST, SLOW})))
        free = (world.vms * BLOCKS // 2 - sum(world.fast.values())) * BLOCK
        limits = MoveLimits(int(set_.rate * set_.patience), set_.hot, set_.cold, set_.exchange)
        for move in choose(vms, Tiers((FAST,), (SLOW,), {FAST: free, SLOW: 1 << 50}), limits):
            world.moved += move.bytes
            for block in range((move.start - START) // BLOCK, (move.end - START) // BLOCK):
                world.fast[int(move.uuid), block] = move.node == FAST
        return PassResult({}, Verdict(Answer.APPLIED))


def played(world: World, settings: TieringSettings) -> Iterator[tuple[int, float, float]]:
    """Phase, seconds of it, and the share of what is hot that is on the fast node; an agent's cycle is 10 s."""

    def watch(pid: int) -> DamonWatch:
        return DamonWatch(
            KernelRoot(),
            world,
            pid,
            60.0,
            regions=REGIONS,
            wall=lambda: world.now,
            clock=lambda: world.now,  # type: ignore[arg-type]
        )

    reads = ActiveReads({ActiveSource.DAMON: watch}, 100.0, apart=APART, clock=lambda: world.now)
    reads._thread = object()  # type: ignore[assignment]  # as if it had begun: the test takes each step itself
    lever = Lever(world, reads, settings)
    plan = TieringPlan({str(vm): Share() for vm in range(world.vms)})
    reads.want({str(vm): builders.process(pid=vm) for vm in range(world.vms)})
    cycle = world.now
    while world.now < world.begins[-1]:
        while cycle <= world.now:
            lever.reconcile(plan, [], None, dry_run=False)  # type: ignore[arg-type]
            cycle += 10.0
        phase = world.phase(world.now)
        yield phase, world.now - world.begins[phase], world.on_fast
        rest = reads.read_next(world.now)
        world.now += min(rest, max(0.01, cycle - world.now))


@pytest.fixture(autouse=True)
def guest(monkeypatch: pytest.MonkeyPatch) -> None:
    size = BLOCKS * BLOCK
    monkeypatch.setattr(
        damon_watch, "read_guest_ram", lambda root, pid: GuestRam((Span(START, START + size),), size, 0, False, 0)
    )
    monkeypatch.setattr(damon_watch, "process_memory", lambda root, pid: builders.process(rss=size))


def slowest(world: World, settings: TieringSettings) -> float:
    """Seconds after a move from when on 95 % of what is hot lies on the fast node for good, at the worst."""
    since: dict[int, float | None] = {}
    for phase, at, share in played(world, settings):
        if share < 0.95:
            since[phase] = None
        elif since.get(phase) is None:
            since[phase] = at
    return max(float("inf") if at is None else at for phase, at in since.items() if phase)


MOVES = [(20, 4), (4, 20), (20, 4), (12, 12), (12, 12), (20, 4)]  # of 64 blocks, on a fast node of 32


@pytest.mark.parametrize("seed", range(6))
def test_whenever_what_is_hot_moves_it_is_on_the_fast_node_within_a_minute_and_a_half(seed: int) -> None:
    seconds = [FIRST, *(random.Random(seed).uniform(240, 420) for _ in MOVES[1:])]
    assert slowest(World(MOVES, seconds, seed, used=0.9), TieringSettings()) <= 90.0


def test_twenty_vms_take_longer_for_each_is_read_in_its_turn() -> None:
    hots = [tuple(20 if (vm + phase) % 2 else 4 for vm in range(20)) for phase in range(3)]
    assert slowest(World(hots, [FIRST, 271.0, 307.0], 1, used=0.9), TieringSettings()) <= 150.0


def test_if_what_was_hot_had_to_be_cold_first_nothing_would_settle() -> None:
    """What this stands on: `exchange` is not `cold`."""
    assert (
        slowest(World(MOVES, [FIRST, 250.0, 250.0, 250.0, 250.0, 250.0], 1, 0.9), TieringSettings(exchange=300.0)) > 200
    )


@pytest.mark.parametrize("seconds", [30.0, 60.0, 90.0])
def test_what_is_hot_by_turns_costs_little_more_than_if_nothing_were_moved(seconds: float) -> None:
    """The worst is to move what is no longer in use by the time: half of what is hot on the fast node is to be had for
    nothing."""
    turns = int(1200 / seconds)
    world = World([(20, 4), *([(20, 4), (4, 20)] * turns)][:turns], [FIRST, *[seconds] * (turns - 1)], 3, used=0.9)
    shares = [share for phase, _, share in played(world, TieringSettings()) if phase]
    assert sum(shares) / len(shares) >= 0.4
    assert world.moved <= 2 * MIB * 1200
