"""Which ranges go to which node, within shares, rooms and budget: on examples, and on arbitrary hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.domain import DomainState
from memhint.objects.heat import Heat, HeatMap, NodeRange
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.planner.tiering import (
    BLOCK,
    Move,
    MoveLimits,
    MoveReason,
    Piece,
    Share,
    TieringPlan,
    Tiers,
    VmMemory,
    _Left,
    beyond,
    choose,
    pieces_of,
    plan_tiering,
)
from tests.unit import builders

FAST, OTHER, SLOW = 0, 1, 2
EVERYWHERE = frozenset({FAST, OTHER, SLOW})
LIMITS = MoveLimits(most=1 << 40, hot=20, cold=300)
HOT, WARM, COOL, COLD = (60.0, 0.0), (0.0, 20.0), (0.0, 30.0), (0.0, 900.0)


def pieces(*parts: tuple[int, int, tuple[float, float]], at: int = 0) -> tuple[Piece, ...]:
    """Of MiB, node, and (seconds in use, seconds untouched), one behind the other."""
    found = []
    for size, node, (busy, idle) in parts:
        found.append(Piece(at, at + size * MIB, node, size * MIB, busy, idle))
        at += size * MIB
    return tuple(found)


def tiers(fast: int = 0, slow: int = 1 << 20, other: int | None = None) -> Tiers:
    """Rooms in MiB; a second fast node where ``other`` is given."""
    room = {FAST: fast * MIB, SLOW: slow * MIB}
    if other is None:
        return Tiers((FAST,), (SLOW,), room)
    return Tiers((FAST, OTHER), (SLOW,), {**room, OTHER: other * MIB})


def vm(uuid: str, *parts: tuple[int, int, tuple[float, float]], share: Share = Share(), **changes: object) -> VmMemory:  # noqa: B008
    return replace(VmMemory(uuid, pieces(*parts), EVERYWHERE, share), **changes)  # type: ignore[arg-type]


def summed(moves: Sequence[Move]) -> dict[tuple[str, MoveReason, int], int]:
    found: dict[tuple[str, MoveReason, int], int] = {}
    for move in moves:
        key = (move.uuid, move.why, move.node)
        found[key] = found.get(key, 0) + move.bytes // MIB
    return found


def test_what_is_hot_comes_up_where_there_is_room() -> None:
    moves = choose([vm("a", (10, SLOW, HOT), (10, SLOW, WARM), (10, SLOW, COLD))], tiers(fast=100), LIMITS)
    assert summed(moves) == {("a", MoveReason.PROMOTE, FAST): 10}


def test_a_full_fast_node_gives_up_what_is_cold_before_what_is_hot_comes() -> None:
    moves = choose([vm("a", (10, SLOW, HOT)), vm("b", (4, FAST, WARM), (20, FAST, COLD))], tiers(), LIMITS)
    assert summed(moves) == {("b", MoveReason.DEMOTE, SLOW): 10, ("a", MoveReason.PROMOTE, FAST): 10}
    assert [move.why for move in moves] == [MoveReason.DEMOTE, MoveReason.PROMOTE]


def test_memory_that_lies_scattered_over_its_nodes_takes_no_time_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its guest has a say in that: each piece that is hot must not mean a look at each that could make room."""
    looks = 0

    def idle(one: _Left) -> float:
        nonlocal looks
        looks += 1
        return -1.0 if one.idle is None else one.idle

    monkeypatch.setattr("memhint.planner.tiering._idle", idle)
    in_turns = vm("a", *((2, node, state) for _ in range(1000) for node, state in ((SLOW, HOT), (FAST, WARM))))
    assert choose([in_turns], tiers(), LIMITS) == ()
    assert looks < 20_000
    monkeypatch.setattr("memhint.planner.tiering._LOOKS", 5000)
    cold = vm("a", *((2, node, state) for _ in range(1000) for node, state in ((SLOW, HOT), (FAST, COLD))))
    looks = 0
    assert choose([cold], tiers(slow=0), LIMITS) == ()
    assert looks < 20_000


def test_nothing_comes_up_in_the_place_of_what_is_not_cold() -> None:
    assert choose([vm("a", (10, SLOW, HOT)), vm("b", (30, FAST, WARM))], tiers(), LIMITS) == ()


def test_what_was_in_use_a_little_while_ago_makes_room_for_what_is_hot_and_for_nothing_else() -> None:
    """What is hot may have moved: what was hot before is not to keep its place for minutes."""
    moves = choose([vm("a", (10, SLOW, HOT)), vm("b", (30, FAST, COOL))], tiers(), LIMITS)
    assert summed(moves) == {("b", MoveReason.DEMOTE, SLOW): 10, ("a", MoveReason.PROMOTE, FAST): 10}
    assert not choose([vm("a", (10, SLOW, WARM)), vm("b", (30, FAST, COOL))], tiers(fast=-10), LIMITS)


def test_nothing_moves_where_everything_lies_right_or_nobody_knows() -> None:
    right = vm("a", (10, FAST, HOT), (10, FAST, COLD), (10, SLOW, COLD), (10, SLOW, WARM))
    assert choose([right], tiers(fast=100), LIMITS) == ()
    unknown = replace(right, pieces=[replace(one, idle=None, busy=0.0) for one in right.pieces])
    assert choose([unknown], tiers(fast=-50), LIMITS) == ()


def test_a_fast_node_with_too_little_free_gives_up_what_is_cold_and_no_more() -> None:
    moves = choose([vm("a", (40, FAST, COLD), (40, FAST, WARM))], tiers(fast=-30), LIMITS)
    assert summed(moves) == {("a", MoveReason.DEMOTE, SLOW): 30}
    assert not choose([vm("a", (80, FAST, WARM))], tiers(fast=-30), LIMITS)


def test_a_vm_beyond_its_share_goes_down_the_coldest_first() -> None:
    own = vm("a", (20, FAST, HOT), (20, FAST, WARM), (20, FAST, COLD), share=Share(0, 30 * MIB))
    moves = choose([own], tiers(fast=100), LIMITS)
    assert summed(moves) == {("a", MoveReason.DEMOTE, SLOW): 30}
    assert [move.start // MIB for move in moves] == [40, 20]


def test_at_its_share_a_vm_exchanges_its_own() -> None:
    own = vm("a", (10, SLOW, HOT), (20, FAST, COLD), share=Share(0, 20 * MIB))
    assert summed(choose([own], tiers(fast=100), LIMITS)) == {
        ("a", MoveReason.DEMOTE, SLOW): 10,
        ("a", MoveReason.PROMOTE, FAST): 10,
    }


def test_a_vm_gives_up_nothing_of_its_minimum_where_nothing_can_come_for_it() -> None:
    own = vm("a", (10, SLOW, HOT), (20, FAST, COLD), share=Share(40 * MIB))
    assert not choose([own], tiers(fast=-30), LIMITS)
    assert not choose(
        [replace(own, share=Share(21 * MIB))], Tiers((FAST,), (SLOW,), {FAST: MIB // 2, SLOW: 1 << 40}), LIMITS
    )


def test_what_is_hot_does_not_come_up_beyond_a_share_that_nothing_of_its_own_is_given_up_for() -> None:
    own = vm("a", (10, SLOW, HOT), (20, FAST, WARM), share=Share(0, 24 * MIB))
    assert summed(choose([own], tiers(fast=100), LIMITS)) == {("a", MoveReason.PROMOTE, FAST): 4}


def test_a_vm_below_its_minimum_gets_it_in_the_place_of_the_coldest_of_others() -> None:
    short = vm("a", (30, SLOW, WARM), share=Share(20 * MIB))
    other = vm("b", (10, FAST, HOT), (30, FAST, (0.0, 40.0)))
    assert summed(choose([short, other], tiers(), LIMITS)) == {}  # nothing of b is less in use than what would come
    moves = choose([replace(short, pieces=pieces((30, SLOW, (5.0, 0.0)))), other], tiers(), LIMITS)
    assert summed(moves) == {("b", MoveReason.DEMOTE, SLOW): 20, ("a", MoveReason.PROMOTE, FAST): 20}


def test_nobody_is_taken_below_his_minimum_for_another() -> None:
    kept = vm("b", (30, FAST, COLD), share=Share(24 * MIB))
    moves = choose([vm("a", (20, SLOW, HOT)), kept], tiers(), LIMITS)
    assert summed(moves) == {("b", MoveReason.DEMOTE, SLOW): 6, ("a", MoveReason.PROMOTE, FAST): 6}


def test_a_bound_vm_goes_nowhere_else() -> None:
    bound = vm("a", (10, SLOW, HOT), (50, FAST, COLD), nodes=frozenset({OTHER, SLOW}))
    moves = choose([bound], tiers(fast=-50, other=100), LIMITS)
    assert {move.node for move in moves} <= {OTHER, SLOW}
    assert summed(moves) == {("a", MoveReason.PROMOTE, OTHER): 10, ("a", MoveReason.DEMOTE, SLOW): 50}


def test_a_scattered_vm_is_gathered_where_most_of_it_lies_if_all_of_it_fits() -> None:
    wide = vm("a", (300, FAST, WARM), (100, OTHER, WARM), home=frozenset({FAST, OTHER}))
    assert summed(choose([wide], tiers(fast=120, other=400), LIMITS)) == {("a", MoveReason.GATHER, FAST): 100}
    assert summed(choose([wide], tiers(fast=90, other=400), LIMITS)) == {("a", MoveReason.GATHER, OTHER): 300}
    assert not choose([wide], tiers(fast=90, other=90), LIMITS)


def test_a_vm_is_not_gathered_where_its_cpus_may_not_run_or_for_a_little() -> None:
    wide = vm("a", (300, FAST, WARM), (100, OTHER, WARM), home=frozenset({OTHER}))
    assert not choose([wide], tiers(fast=500, other=200), LIMITS)
    assert not choose([replace(wide, home=frozenset())], tiers(fast=500, other=500), LIMITS)
    little = vm("a", (300, FAST, WARM), (40, OTHER, WARM), home=frozenset({FAST, OTHER}))
    assert not choose([little], tiers(fast=500, other=500), LIMITS)


def test_hosts_whose_nodes_are_all_fast_are_only_gathered() -> None:
    even = Tiers((FAST, OTHER), (), {FAST: 500 * MIB, OTHER: -5 * MIB})
    wide = vm("a", (300, FAST, HOT), (100, OTHER, COLD), home=frozenset({FAST, OTHER}))
    assert summed(choose([wide], even, LIMITS)) == {("a", MoveReason.GATHER, FAST): 100}


def test_a_budget_is_kept_with_what_makes_room_in_it() -> None:
    moves = choose([vm("a", (50, SLOW, HOT)), vm("b", (50, FAST, COLD))], tiers(), replace(LIMITS, most=20 * MIB))
    assert sum(move.bytes for move in moves) <= 20 * MIB


def test_pieces_are_divided_by_use_and_a_block_in_use_in_part_is_in_use() -> None:
    lying = [NodeRange(0, 10 * BLOCK, FAST, 5 * BLOCK), NodeRange(12 * BLOCK, 13 * BLOCK, SLOW, BLOCK)]
    heat = HeatMap(0.0, (Heat(0, 3 * BLOCK + 4096, 0.0, 50.0), Heat(3 * BLOCK + 4096, 8 * BLOCK, 7.0, 0.0)))
    found = pieces_of(lying, heat)
    assert [(one.start // BLOCK, one.end // BLOCK, one.busy, one.idle) for one in found] == [
        (0, 3, 0.0, 50.0),
        (3, 4, 7.0, 0.0),
        (4, 8, 7.0, 0.0),
        (8, 10, 0.0, None),
        (12, 13, 0.0, None),
    ]
    assert [one.bytes for one in found] == [3 * MIB, MIB, 4 * MIB, 2 * MIB, BLOCK]
    assert [one.idle for one in pieces_of(lying, None)] == [None, None]


def test_a_range_across_the_end_of_a_block_tells_nothing_of_the_one_of_which_it_covers_little() -> None:
    """A cold block beside a hot one would count as in use, and never make room."""
    lying, edge = [NodeRange(0, 2 * BLOCK, FAST, 2 * BLOCK)], BLOCK // 16
    cold, hot = Heat(0, BLOCK - edge, 0.0, 50.0), Heat(BLOCK + edge, 2 * BLOCK, 40.0, 0.0)
    across = Heat(BLOCK - edge, BLOCK + edge, 20.0, 0.0)
    found = pieces_of(lying, HeatMap(0.0, (cold, across, hot)))
    assert [(one.busy, one.idle) for one in found] == [(0.0, 50.0), (40.0, 0.0)]
    # nor does one that was not touched make the hot one cold
    found = pieces_of(lying, HeatMap(0.0, (cold, replace(across, busy=0.0, idle=90.0), replace(hot, busy=10.0))))
    assert [(one.busy, one.idle) for one in found] == [(0.0, 50.0), (10.0, 0.0)]
    # of a quarter it does tell, and where nothing else does
    wide = Heat(BLOCK - BLOCK // 4, BLOCK + edge, 20.0, 0.0)
    found = pieces_of(lying, HeatMap(0.0, (replace(cold, end=wide.start), wide, hot)))
    assert [(one.busy, one.idle) for one in found] == [(20.0, 0.0), (40.0, 0.0)]
    assert [one.busy for one in pieces_of(lying, HeatMap(0.0, (across,)))] == [20.0, 20.0]


@given(
    st.lists(
        st.tuples(
            st.one_of(st.just(0), st.integers(0, 3 * BLOCK)),
            st.one_of(st.integers(1, BLOCK // 2), st.integers(1, 5 * BLOCK)),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2)), max_size=8),
)
def test_pieces_cover_what_lies_there_and_never_make_a_block_idle_of_which_a_quarter_is_in_use(
    ranges: list[tuple[int, int, bool]], runs: list[tuple[int, int, int]]
) -> None:
    heats, lying, at = [], [], 0
    for gap, size, touched in ranges:
        heats.append(Heat(at + gap, at + gap + size, 10.0 * touched, 0.0 if touched else 10.0))
        at += gap + size
    at = 0
    for gap, blocks, node in runs:
        lying.append(NodeRange(at + gap * BLOCK, at + (gap + blocks) * BLOCK, node, blocks * BLOCK))
        at += (gap + blocks) * BLOCK
    found = pieces_of(lying, HeatMap(0.0, tuple(heats)))
    blocks_of = [(at, one.node) for one in lying for at in range(one.start, one.end, BLOCK)]
    assert [(at, one.node) for one in found for at in range(one.start, one.end, BLOCK)] == blocks_of
    assert sum(one.bytes for one in found) == sum(one.bytes for one in lying)
    for one in found:
        for at in range(one.start, one.end, BLOCK):
            touching = [each for each in heats if each.start < at + BLOCK and each.end > at]
            wide = [each for each in touching if min(each.end, at + BLOCK) - max(each.start, at) >= BLOCK // 4]
            small = [each for each in touching if each.start >= at and each.end <= at + BLOCK]
            telling = [each for each in touching if each in wide or each in small] or touching
            assert one.busy == max((each.busy for each in telling), default=0.0)
            assert one.idle == min((each.idle for each in telling), default=None)


@dataclass(frozen=True)
class Host:
    vms: list[VmMemory]
    tiers: Tiers
    limits: MoveLimits


@st.composite
def hosts(draw: st.DrawFn) -> Host:
    vms = []
    for place in range(draw(st.integers(1, 3))):
        parts = []
        for _ in range(draw(st.integers(2, 7))):
            use = draw(st.sampled_from([HOT, COLD, HOT, WARM, (5.0, 0.0), (0.0, 301.0)]))
            parts.append((2 * draw(st.integers(1, 60)), draw(st.sampled_from([SLOW, FAST, OTHER])), use))
        found = [
            replace(
                one,
                bytes=max(1, one.bytes * draw(st.integers(1, 8)) // 8),
                idle=draw(st.sampled_from([one.idle] * 5 + [None])),
            )
            for one in pieces(*parts)
        ]
        low, high = sorted(draw(st.tuples(st.integers(0, 300), st.integers(0, 400))))
        share = draw(st.sampled_from([Share(0, low * MIB), Share(low * MIB, high * MIB), Share(low * MIB), Share()]))
        nodes = draw(
            st.sampled_from([EVERYWHERE, frozenset({FAST, SLOW}), frozenset({OTHER, SLOW}), frozenset({FAST, OTHER})])
        )
        home = nodes & draw(st.sampled_from([frozenset(), frozenset({FAST, OTHER}), frozenset({OTHER})]))
        vms.append(VmMemory(f"vm{place}", found, nodes, share, home))
    rooms = {node: MIB * draw(st.integers(-50, 200)) for node in (FAST, OTHER, SLOW)}
    limits = replace(LIMITS, most=MIB * draw(st.sampled_from([10_000, 64, 10_000, 7, 0])))
    slow = draw(st.sampled_from([(SLOW,), (SLOW,), (SLOW,), ()]))
    return Host(vms, Tiers((FAST, OTHER), slow, rooms), limits)


def on_fast(one: VmMemory) -> int:
    return sum(each.bytes for each in one.pieces if each.node != SLOW)


@given(hosts())
def test_whatever_the_host_moves_stay_within_every_bound(host: Host) -> None:
    moves = choose(host.vms, host.tiers, host.limits)
    by_uuid = {one.uuid: one for one in host.vms}
    assert sum(move.bytes for move in moves) <= host.limits.most
    room: dict[int, int] = dict(host.tiers.room)
    held = {one.uuid: on_fast(one) for one in host.vms}
    taken: set[tuple[str, int]] = set()
    for move in moves:
        owner = by_uuid[move.uuid]
        source = next(one for one in owner.pieces if one.start <= move.start and move.end <= one.end)
        assert move.start < move.end
        assert move.start % BLOCK == move.end % BLOCK == 0
        assert move.node in owner.nodes
        assert move.node != source.node
        blocks = {(move.uuid, at) for at in range(move.start, move.end, BLOCK)}
        assert not blocks & taken, "moved twice"
        taken |= blocks
        room[move.node] -= move.bytes
        room[source.node] += move.bytes
        assert room[move.node] >= 0, "no room was left for it"
        held[move.uuid] += move.bytes * ((move.node != SLOW) - (source.node != SLOW))
    for uuid, size in held.items():
        before, share = on_fast(by_uuid[uuid]), by_uuid[uuid].share
        assert size <= max(before, share.most)
        assert size >= min(before, share.least) - BLOCK


@given(hosts())
def test_what_was_moved_is_left_where_it_is_by_the_next_look(host: Host) -> None:
    """A second look after all moves asks for nothing that takes a first one back."""
    assert not _taken_back(host)


def thin(mib: float, size: int, node: int, use: tuple[float, float], at: int = 0) -> Piece:
    """A piece of so many MiB, a part of which has memory; ``at`` in MiB."""
    return Piece(at * MIB, (at + size) * MIB, node, int(mib * MIB), *use)


def alone(*parts: Piece, share: Share, room: dict[int, int], most: int = 1 << 40, beside: Sequence[Piece] = ()) -> Host:
    """One VM on a host with such rooms, in MiB; ``beside`` it another that may have as much as there is."""
    rooms = Tiers((FAST, OTHER), (SLOW,), {node: size * MIB for node, size in room.items()})
    vms = [VmMemory("b", beside, EVERYWHERE), VmMemory("a", parts, EVERYWHERE, share)]
    return Host(vms, rooms, replace(LIMITS, most=most))


LITTLE = (thin(1, 8, SLOW, (0, 301)), thin(114, 114, SLOW, HOT, 8), thin(17, 68, FAST, (5, 0), 122))


@pytest.mark.parametrize(
    "host",
    [
        # Of what a VM is short of a hot block leaves a part: the next one came up, too, and not something cold.
        alone(*LITTLE, share=Share(52 * MIB), room={FAST: 76, OTHER: 0, SLOW: 100}),
        # What is beyond a share is a part of the block that goes: that makes no room for a smaller one.
        alone(
            thin(21, 56, FAST, HOT),
            thin(49.5, 66, FAST, HOT, 56),
            thin(0.75, 2, FAST, HOT, 148),
            share=Share(0, 11 * MIB),
            room={FAST: 0, OTHER: 0, SLOW: 139},
        ),
        # What one pass may move ends within a cold block: no hot one goes in its place.
        alone(
            thin(1.5, 12, FAST, HOT, 4),
            thin(82.25, 94, FAST, COLD, 16),
            share=Share(0, 16 * MIB),
            room={FAST: 102, OTHER: 0, SLOW: 170},
            most=64 * MIB,
        ),
        # What came with the last block beyond a minimum is not what another VM may have.
        alone(
            thin(12, 12, OTHER, COLD),
            thin(20, 40, SLOW, (5, 0), 12),
            thin(3, 12, SLOW, (0, 301), 52),
            thin(7.5, 10, FAST, HOT, 72),
            thin(7, 8, SLOW, (0, 301), 82),
            thin(17.5, 70, FAST, (5, 0), 90),
            share=Share(66 * MIB),
            room={FAST: 65, OTHER: 2, SLOW: 110},
            beside=pieces((100, SLOW, HOT), at=200),
        ),
        # A VM at its minimum that exchanges its own keeps it, where more goes than comes.
        alone(
            thin(0.75, 6, SLOW, HOT, 118),
            thin(2.5, 10, FAST, (0, 301), 124),
            thin(50, 80, OTHER, (0, 301), 134),
            thin(2, 8, FAST, (5, 0), 240),
            share=Share(48 * MIB),
            room={FAST: 5, OTHER: 4, SLOW: 110},
            beside=(thin(55, 88, SLOW, HOT, 300),),
        ),
    ],
)
def test_blocks_of_different_size_are_not_exchanged_to_and_fro(host: Host) -> None:
    assert choose(host.vms, host.tiers, host.limits)
    assert not _taken_back(host)


def test_what_one_node_took_is_not_taken_by_the_other_as_well() -> None:
    host = alone(thin(9, 12, SLOW, (0, 900)), share=Share(6 * MIB), room={FAST: 6, OTHER: 100, SLOW: 0})
    (move,) = choose(host.vms, host.tiers, host.limits)
    assert (move.bytes, move.node) == (6 * MIB, OTHER)


def _taken_back(host: Host) -> list[tuple[Move, Move]]:
    """Moves of a first look, each with the one of a second look that takes it back."""
    moves = choose(host.vms, host.tiers, host.limits)
    after, room = _moved(host, moves)
    again = choose(after, Tiers(host.tiers.fast, host.tiers.slow, room), host.limits)
    back = {MoveReason.PROMOTE: MoveReason.DEMOTE, MoveReason.DEMOTE: MoveReason.PROMOTE}
    return [
        (move, later)
        for move in moves
        for later in again
        if later.uuid == move.uuid and later.start < move.end and move.start < later.end
        if later.why is back.get(move.why)
    ]


def _moved(host: Host, moves: Sequence[Move]) -> tuple[list[VmMemory], Mapping[int, int]]:
    room, after = dict(host.tiers.room), []
    for one in host.vms:
        left = []
        for piece in one.pieces:
            each, at = piece.bytes / piece.blocks, piece.start
            for move in sorted(
                (m for m in moves if m.uuid == one.uuid and piece.start <= m.start < piece.end), key=lambda m: m.start
            ):
                left.append(replace(piece, start=move.start, end=move.end, node=move.node, bytes=move.bytes))
                room[move.node] -= move.bytes
                room[piece.node] += move.bytes
                at = move.end
            if at < piece.end:
                left.append(replace(piece, start=at, bytes=max(1, int(each * ((piece.end - at) // BLOCK)))))
        after.append(replace(one, pieces=left))
    return after, room


def test_who_is_a_member_follows_from_policy_and_contradictions_are_said() -> None:
    def planned(**keys: str) -> TieringPlan:
        one = builders.domain_observation(facts=builders.facts(memory=4 * GIB))
        return plan_tiering([one], {one.uuid: effective({Origin.OPERATOR: keys})}, frozenset())

    uuid = builders.domain_observation().uuid
    assert planned() == TieringPlan()
    assert planned(tiering="allow").members == {uuid: Share(0, 4 * GIB)}
    shared = planned(tiering="allow", fast_min="25%", fast_max="3072")
    assert shared.members == {uuid: Share(GIB, 3 * GIB)}
    assert planned(tiering="allow", fast_max="0%").members == {uuid: Share(0, 0)}
    wrong = planned(tiering="allow", fast_min="50%", fast_max="1024")
    assert not wrong.members
    assert wrong.refused == {uuid: "fast_min of 2048 MiB is more than fast_max of 1024 MiB"}


def test_a_vm_that_does_not_run_or_is_not_known_is_left_alone() -> None:
    one = builders.domain_observation()
    policies = {one.uuid: effective({Origin.OPERATOR: {"tiering": "allow"}})}
    assert plan_tiering([replace(one, state=DomainState.PAUSED)], policies, frozenset()) == TieringPlan()
    assert plan_tiering([one], policies, frozenset({one.uuid})) == TieringPlan()


def test_minimums_that_no_host_can_keep_are_said() -> None:
    assert beyond({"a": Share(GIB), "b": Share(GIB)}, 2 * GIB) is None
    assert "2048 MiB" in (beyond({"a": Share(GIB), "b": Share(GIB)}, 2 * GIB - 1) or "")
