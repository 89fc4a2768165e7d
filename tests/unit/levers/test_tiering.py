"""The lever that moves memory between nodes: who is left alone and why, and what ends a pass."""

from __future__ import annotations

import errno
from array import array
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memhint.agent.applied import Applied
from memhint.agent.runners.host import HostRunner
from memhint.kernel.errors import ProcessGone
from memhint.kernel.guest_nodes import Bounds
from memhint.kernel.guest_ram import Span
from memhint.kernel.move_pages import Moved
from memhint.kernel.root import PAGE_SIZE, KernelRoot
from memhint.levers.lever import PassResult
from memhint.levers.tiering import TieringLever, TieringSettings
from memhint.levers.tiering_moves import CHUNK, Carrier, Done
from memhint.levers.tiering_verdicts import unread
from memhint.objects.active import ActiveSource
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.heat import HeatMap
from memhint.objects.lever import LeverName, Observed
from memhint.objects.ownership import HOST
from memhint.objects.policy import Origin, effective
from memhint.objects.units import KIB, MIB
from memhint.objects.verdict import Answer, Reason, Verdict
from memhint.planner.tiering import BLOCK, Move, MoveReason, Share, TieringPlan, Tiers
from tests.unit import builders
from tests.unit.agent.views import asking, view_of
from tests.unit.kernel.fake_root import FakeRoot

VM = builders.domain_observation()
assert VM.active is not None
PLAN = TieringPlan({VM.uuid: Share()})
WAIT_S = 60.0  # never reached unless the test fails
NODE = "Node {0} MemTotal: 1000000 kB\nNode {0} MemFree: 500000 kB\nNode {0} Active(file): 0 kB\n"


class Host:
    """A host with a fast and a slow node, and what the lever is told of it."""

    def __init__(self, path: Path) -> None:
        self.root = FakeRoot(path).host()
        self.nodes(2)
        self.root.write("sys/devices/virtual/memory_tiering/memory_tier4/nodelist", "0\n")
        self.root.write("sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "1\n")
        self.asked: list[frozenset[str]] = []
        self.now, self.cpu = 0.0, 0.0
        self.known: Mapping[str, HeatMap] = {}
        self.lever = TieringLever(
            self.root.kernel,
            self.heat,
            lambda total: total // 50,
            TieringSettings(),
            lambda: self.now,
            lambda _: None,
            lambda: self.cpu,
        )

    def nodes(self, count: int) -> None:
        for node in range(count):
            self.root.write(f"sys/devices/system/node/node{node}/meminfo", NODE.format(node))
        self.root.write("sys/devices/system/node/has_memory", f"0-{count - 1}\n")
        self.root.write("sys/devices/system/node/has_cpu", "0\n")

    def heat(self, uuids: Collection[str]) -> Mapping[str, HeatMap]:
        self.asked.append(frozenset(uuids))
        return self.known

    def pull(self, plan: TieringPlan = PLAN, vm: DomainObservation = VM) -> PassResult:
        return self.lever.reconcile(plan, [vm], builders.host_observation(), dry_run=False)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_without_consent_nothing_is_looked_at(host: Host) -> None:
    outcome = host.pull(TieringPlan())
    assert outcome.host.reason is Reason.OPT_OUT
    (state,) = host.lever.states([VM], builders.host_observation(), TieringPlan(), {VM.uuid: effective({})}, outcome)
    assert (state.desired, state.observed, state.verdict) == ("off", Observed.OFF, Verdict(Answer.UNCHANGED))


def test_a_host_with_one_node_is_unsupported_and_says_so_of_each_vm(host: Host, tmp_path: Path) -> None:
    host.root.write("sys/devices/virtual/memory_tiering/memory_tier22/nodelist", "\n")
    host.root.write("sys/devices/system/node/has_memory", "0\n")
    outcome = host.pull()
    assert (outcome.host.answer, outcome.host.reason) == (Answer.UNSUPPORTED, Reason.ONE_NODE)
    policies = {VM.uuid: effective({Origin.OPERATOR: {"tiering": "allow"}})}
    states = list(host.lever.states([VM], builders.host_observation(), PLAN, policies, outcome))
    assert [(state.subject, state.observed) for state in states] == [
        (VM.uuid, Observed.UNSUPPORTED),
        (HOST, Observed.UNSUPPORTED),
    ]
    assert {state.lever for state in states} == {LeverName.TIERING}


def test_a_kernel_that_tiers_by_itself_is_a_conflict(host: Host) -> None:
    host.root.write("proc/sys/kernel/numa_balancing", "2\n")
    assert host.pull().host.reason is Reason.OTHER_MANAGER
    host.root.write("proc/sys/kernel/numa_balancing", "1\n")
    assert host.pull(TieringPlan({VM.uuid: Share(1)})).host.answer is not Answer.CONFLICT


def test_the_mappings_of_a_qemu_that_is_still_starting_are_read_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def no_mappings(root: KernelRoot, pid: int) -> Bounds:
        read.append(pid)
        return Bounds((), frozenset({0, 1}), frozenset())

    monkeypatch.setattr("memhint.levers.tiering.read_bounds", no_mappings)
    for state, times in ((DomainState.PAUSED, 2), (DomainState.RUNNING, 1)):
        read.clear()
        for _ in range(2):
            host.now += 61.0
            host.pull(vm=replace(VM, state=state))
        assert len(read) == times, state


def test_a_host_under_pressure_is_left_alone(host: Host) -> None:
    text = host.root.text("proc/pressure/memory")
    host.root.write("proc/pressure/memory", text.replace(text.split("avg10=")[1].split(" ")[0], "5.00", 1))
    assert host.pull().host.reason is Reason.PRESSURE


def test_the_last_outcome_stands_until_it_is_time_to_look_again(host: Host) -> None:
    first = host.pull()
    host.root.write("proc/sys/kernel/numa_balancing", "2\n")
    host.now = 59.0
    assert host.pull() is first
    host.now = 61.0
    assert host.pull().host.reason is Reason.OTHER_MANAGER
    assert host.asked == [frozenset({VM.uuid})] * 3


def test_what_a_pass_moved_is_told_once_however_long_it_stands(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(self, members, domains, heat, *, dry_run) -> PassResult:
        done = Verdict(Answer.APPLIED, Reason.NONE, f"10 MiB at {host.now:g}")
        return PassResult(dict.fromkeys(members, done), done)

    monkeypatch.setattr(TieringLever, "_pass", moved)
    applied = Applied(lambda: host.now)
    runner = HostRunner(host.lever, note=applied.note)
    known, missing = view_of([VM], {}), view_of([VM], {}, listed=False)
    planned = asking()
    planned = replace(planned, of_host={**planned.of_host, LeverName.TIERING: PLAN})
    for at, view in ((0.0, known), (10.0, known), (20.0, missing), (30.0, known), (70.0, known), (80.0, known)):
        host.now = at
        runner.pull(view, planned)
        assert runner.settle(WAIT_S)
    told = [(at, state.verdict.detail) for at, state in applied.take()]
    assert told == [(0.0, "10 MiB at 0"), (70.0, "10 MiB at 70")]
    assert runner._last.read()[1].host.detail == "10 MiB at 70", "and shown as long as it stands"


def test_it_is_looked_earlier_once_it_is_newly_known_what_is_in_use(host: Host) -> None:
    host.known = {VM.uuid: HeatMap(100.0, ())}
    first = host.pull()
    host.now = 10.0
    assert host.pull() is first, "no more is known than before"
    host.known = {VM.uuid: HeatMap(110.0, ())}
    second = host.pull()
    assert second is not first
    host.now = 20.0
    assert host.pull() is second


def test_looking_earlier_takes_a_hundredth_of_a_cpu_at_most(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def costly(*_: object) -> tuple[()]:
        host.cpu += 0.3
        return ()

    monkeypatch.setattr("memhint.levers.tiering.choose", costly)
    first = host.pull()
    host.known = {VM.uuid: HeatMap(100.0, ())}
    host.now = 29.0
    assert host.pull() is first
    host.now = 31.0
    assert host.pull() is not first


@pytest.mark.parametrize(
    ("facts", "answer", "reason"),
    [
        ({"hugepages": True}, Answer.UNSUPPORTED, Reason.DEVICE),
        ({"locked": True}, Answer.UNSUPPORTED, Reason.DEVICE),
        ({"vfio": True}, Answer.UNSUPPORTED, Reason.DEVICE),
        ({"confidential": True}, Answer.UNSUPPORTED, Reason.DEVICE),
        ({"realtime": True}, Answer.REFUSED, Reason.EXCLUDED),
        ({"numa_strict": True, "numa_nodes": (0,)}, Answer.UNSUPPORTED, Reason.ONE_NODE),
        ({"numa_strict": True}, Answer.UNSUPPORTED, Reason.ONE_NODE),
    ],
)
def test_who_is_left_alone(host: Host, facts: dict[str, Any], answer: Answer, reason: Reason) -> None:
    outcome = host.pull(vm=builders.domain_observation(facts=builders.facts(**facts)))
    assert (outcome.verdicts[VM.uuid].answer, outcome.verdicts[VM.uuid].reason) == (answer, reason)


def test_a_vm_that_ended_is_said_not_to_run(host: Host) -> None:
    outcome = host.pull(vm=builders.domain_observation(process=builders.process(pid=4_194_304)))
    assert (outcome.verdicts[VM.uuid].answer, outcome.verdicts[VM.uuid].reason) == (Answer.PENDING, Reason.NOT_RUNNING)


def test_contradictory_limits_are_refused_and_nothing_is_done(host: Host) -> None:
    outcome = host.pull(TieringPlan({}, {VM.uuid: "fast_min is more"}))
    assert outcome.verdicts[VM.uuid] == Verdict(Answer.REFUSED, Reason.LIMITS, "fast_min is more")
    outcome = host.pull(TieringPlan({VM.uuid: Share(1 << 40)}))
    assert outcome.verdicts[VM.uuid].reason is Reason.LIMITS


def test_nothing_is_left_to_undo(host: Host) -> None:
    assert host.lever.undo([VM], builders.host_observation()).answer is Answer.UNCHANGED
    assert host.lever.hold().ok
    assert "unknown" in host.lever.held("unknown").detail


@pytest.mark.parametrize(
    ("changes", "answer", "words"),
    [
        ({"active": None}, Answer.REFUSED, "is not read"),
        ({"active": replace(VM.active, source=ActiveSource.REFERENCED)}, Answer.REFUSED, "accessed bits"),
        ({"active": None, "gaps": (Gap("active", GapReason.PENDING),)}, Answer.PENDING, "not known yet"),
        ({"active": None, "gaps": (Gap("active", GapReason.CONFLICT, "in use"),)}, Answer.REFUSED, "in use"),
        ({"active": VM.active}, Answer.PENDING, "not known yet"),
    ],
)
def test_it_is_said_why_what_is_in_use_is_not_known(changes: dict[str, Any], answer: Answer, words: str) -> None:
    verdict = unread(builders.domain_observation(**changes))
    assert (verdict.answer, verdict.reason) == (answer, Reason.NO_READING)
    assert words in verdict.detail


ZONES = """Node 0, zone    DMA32
  pages free     500000
        min      20
        low      100
        high     200
        managed  1000
        protection: (0, 0, 300, 300)
      cpu: 0
              count: 7
              high:  90000
Node 0, zone   Normal
        low      {low}
        high     {high}
        managed  250000
        protection: (0, 0, 0, 0)
"""


def test_what_the_kernel_keeps_free_of_a_node_is_no_room(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each pass would choose what ends with ENOMEM, and put nothing cold aside for what is hot."""
    rooms: list[dict[int, int]] = []

    def choose(_vms: object, tiers: Tiers, _limits: object) -> tuple[()]:
        rooms.append(dict(tiers.room))
        rooms.append(host.lever._room(tiers.fast, kept=0.5))
        return ()

    monkeypatch.setattr("memhint.levers.tiering.choose", choose)
    host.pull()
    host.root.write("proc/zoneinfo", ZONES.format(low=99_600, high=124_500))
    host.now = 100.0
    host.pull()
    free, total = 500_000 * KIB, 1_000_000 * KIB
    assert [room[0] for room in rooms[:2]] == [free - total // 20, free - total // 40]
    assert [room[0] for room in rooms[2:]] == [free - 125_000 * PAGE_SIZE, free - 100_000 * PAGE_SIZE]
    assert [room[1] for room in rooms[2:]] == [room[1] for room in rooms[:2]]


def test_no_more_processes_are_held_at_once_than_threads_move(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a descriptor: of a thousand VMs they would leave the agent none."""
    held: list[Held] = []
    most: list[int] = []
    moved: list[str] = []

    class Held:
        def __init__(self, _root: KernelRoot, instance: str) -> None:
            self.instance = instance

        def __enter__(self) -> Held:
            held.append(self)
            most.append(len(held))
            return self

        def __exit__(self, *_: object) -> None:
            held.remove(self)

        def nodes(self, addresses: array[int]) -> array[int]:
            return array("i", [1]) * len(addresses)

        def move(self, start: int, end: int, _node: int) -> Moved:
            moved.append(self.instance)
            return Moved(moved=end - start)

    vms = [
        builders.domain_observation(uuid=f"vm-{number}", process=builders.process(pid=1000 + number))
        for number in range(50)
    ]
    spans = (Span(0, 16 * CHUNK),)
    monkeypatch.setattr("memhint.levers.tiering.PageMover", Held)
    monkeypatch.setattr(
        "memhint.levers.tiering.read_bounds", lambda root, pid: Bounds(spans, frozenset({0, 1}), frozenset())
    )
    monkeypatch.setattr(
        "memhint.levers.tiering.choose", lambda *_: tuple(move(one.uuid, size=8 * CHUNK) for one in vms)
    )
    monkeypatch.setattr(TieringLever, "_room", lambda *_, **__: {0: 1 << 40, 1: 1 << 40})
    monkeypatch.setattr(TieringLever, "_trouble", lambda *_: None)
    plan = TieringPlan(dict.fromkeys([one.uuid for one in vms], Share()))
    outcome = host.lever.reconcile(plan, vms, builders.host_observation(), dry_run=False)
    assert outcome.verdicts[vms[-1].uuid].answer is Answer.APPLIED
    assert set(moved) == {one.process.instance for one in vms if one.process is not None}
    assert max(most) <= TieringSettings().threads
    assert held == []


def test_a_vm_that_ended_since_it_was_looked_at_has_nothing_moved(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def once(_root: KernelRoot, instance: str) -> Any:
        looks.append(instance)
        if len(looks) > 1:
            raise ProcessGone("proc/1", "the process ended")
        return nullcontext()

    monkeypatch.setattr("memhint.levers.tiering.PageMover", once)
    monkeypatch.setattr("memhint.levers.tiering.where", lambda mover, spans: ())
    monkeypatch.setattr(
        "memhint.levers.tiering.read_bounds",
        lambda root, pid: Bounds((Span(0, CHUNK),), frozenset({0, 1}), frozenset()),
    )
    monkeypatch.setattr("memhint.levers.tiering.choose", lambda *_: (move(VM.uuid),))
    monkeypatch.setattr(TieringLever, "_trouble", lambda *_: None)
    outcome = host.pull()
    assert VM.process is not None
    assert looks == [VM.process.instance] * 2
    assert outcome.verdicts[VM.uuid].reason is Reason.NOT_RUNNING


def test_what_a_node_owes_to_vms_that_are_bound_to_it_is_no_room(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the node is full once such a VM touches what it has not yet, and it is killed."""
    rooms: list[dict[int, int]] = []

    def choose(_vms: object, tiers: Tiers, _limits: object) -> tuple[Move, ...]:
        rooms.append(dict(tiers.room))
        return (move(VM.uuid),)

    def carried(carrier: Carrier, _moves: object, _movers: object) -> dict[str, Done]:
        rooms.append(dict(carrier._room()))
        return {}

    monkeypatch.setattr("memhint.levers.tiering.choose", choose)
    monkeypatch.setattr(Carrier, "carry", carried)
    host.pull()
    facts = builders.facts(memory=200 * MIB, numa_strict=True, numa_nodes=(0,))
    bound = builders.domain_observation(uuid="b", facts=facts, process=builders.process(pid=4343, rss=80 * MIB))
    unread = replace(bound, uuid="u", process=None)
    host.now = 100.0
    host.lever.reconcile(PLAN, [VM, bound, unread], builders.host_observation(), dry_run=False)
    alone, beside = rooms[:2], rooms[2:]
    kept = TieringSettings().overhead
    assert [without[0] - with_[0] for without, with_ in zip(alone, beside, strict=True)] == [320 * MIB + 2 * kept] * 2
    assert [room[1] for room in beside] == [room[1] for room in alone], "nobody is bound to the other node"


def test_page_cache_that_is_a_vms_memory_is_no_room(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[dict[int, int]] = []

    def choose(_vms: object, tiers: Tiers, _limits: object) -> tuple[Move, ...]:
        rooms.append(dict(tiers.room))
        return ()

    monkeypatch.setattr("memhint.levers.tiering.choose", choose)
    meminfo = "sys/devices/system/node/node0/meminfo"
    host.root.write(meminfo, NODE.format(0).replace("Active(file): 0 kB", f"Active(file): {300 << 10} kB"))
    for number, size in enumerate((0, 100 * MIB, 4000 * MIB)):
        filed = builders.domain_observation(
            uuid="f", facts=builders.facts(file_backed=True), process=builders.process(pid=4343, rss=size)
        )
        host.now = 100.0 * (number + 1)
        host.lever.reconcile(PLAN, [VM, filed], builders.host_observation(), dry_run=False)
    assert [rooms[0][0] - room[0] for room in rooms[1:]] == [100 * MIB, 300 * MIB]
    assert len({room[1] for room in rooms}) == 1, "that node has no page cache"


def test_moves_that_are_made_at_once_do_not_take_the_same_room() -> None:
    machine = Machine()
    machine.room = {0: 2 * CHUNK}
    machine.carry(move(size=4 * CHUNK), threads=4)
    assert len(machine.moved) == 2


class Machine:
    """Movers that move what they are asked for, unless told otherwise; and a clock that they move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0
        self.room: dict[int, int] = {0: 1 << 40, 1: 1 << 40}
        self.trouble: dict[str, Verdict] = {}
        self.answers: dict[int, Moved | ProcessGone] = {}  # by first address
        self.moved: list[tuple[int, int, int]] = []
        self.stop = False

    def move(self, start: int, end: int, node: int) -> Moved:
        self.moved.append((start, end, node))
        answer = self.answers.get(start, Moved(moved=end - start))
        if isinstance(answer, ProcessGone):
            raise answer
        return answer

    def carry(self, *moves: Move, threads: int = 2, rate: int = 1 << 40, patience: float = 20.0) -> dict[str, Done]:
        def sleep(seconds: float) -> None:
            self.now += seconds
            self.slept += seconds

        carrier = Carrier(
            lambda: self.room,
            self.trouble.get,
            lambda: self.now,
            sleep,
            rate=rate,
            threads=threads,
            patience=patience,
            stop=lambda: self.stop,
        )
        return carrier.carry(moves, lambda uuid: nullcontext(self))


def move(
    uuid: str = "a", start: int = 0, size: int = CHUNK, node: int = 0, why: MoveReason = MoveReason.PROMOTE
) -> Move:
    return Move(uuid, start, start + size, size, node, why)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_ranges_are_moved_in_chunks_that_do_not_overlap(threads: int) -> None:
    machine = Machine()
    done = machine.carry(move(size=5 * CHUNK + BLOCK), threads=threads)
    assert sorted(machine.moved) == [
        (at, min(at + CHUNK, 5 * CHUNK + BLOCK), 0) for at in range(0, 5 * CHUNK + BLOCK, CHUNK)
    ]
    assert done["a"].bytes == 5 * CHUNK + BLOCK
    assert done["a"].ended is None


def test_what_makes_room_is_done_before_what_takes_it() -> None:
    machine = Machine()
    machine.carry(move("b", 0, node=1, why=MoveReason.DEMOTE), move("a", CHUNK), threads=4)
    assert machine.moved == [(0, CHUNK, 1), (CHUNK, 2 * CHUNK, 0)]


def test_the_rate_is_kept_and_the_time_of_a_pass() -> None:
    machine = Machine()
    done = machine.carry(move(size=10 * CHUNK), threads=1, rate=CHUNK, patience=4.0)
    assert machine.slept == 4.0
    assert done["a"].bytes == 4 * CHUNK
    assert done["a"].ended is not None
    assert done["a"].ended.reason is Reason.TIME_UP


def test_a_vm_that_stalls_is_left_alone_and_others_go_on() -> None:
    machine = Machine()
    machine.trouble["a"] = Verdict(Answer.REFUSED, Reason.STALLS)
    done = machine.carry(move("a"), move("b", CHUNK))
    assert (done["a"].bytes, done["b"].bytes) == (0, CHUNK)
    assert done["a"].ended == machine.trouble["a"]


def test_a_node_that_is_full_or_gone_ends_what_would_go_there() -> None:
    machine = Machine()
    machine.room = {0: CHUNK - 1}
    done = machine.carry(move("a"), move("b", CHUNK, node=1))
    assert not machine.moved
    assert [done[uuid].ended.reason for uuid in "ab"] == [Reason.NODE_FULL, Reason.NODE_GONE]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOMEM, Reason.NODE_FULL), (errno.ENODEV, Reason.NODE_GONE), (errno.EAGAIN, None)]
)
def test_what_the_kernel_says_of_pages_is_counted_and_said(number: int, reason: Reason | None) -> None:
    machine = Machine()
    machine.answers[0] = Moved(moved=8 * MIB, failed=Counter({number: 24 * MIB}))
    done = machine.carry(move(size=3 * CHUNK), threads=1)["a"]
    assert (done.ended.reason if done.ended else None) is reason
    assert str(done).endswith(f"stayed: 24 MiB {errno.errorcode[number]}")
    assert done.bytes == 8 * MIB + (0 if reason else 2 * CHUNK)


def test_a_vm_that_ends_in_mid_move_ends_its_moves_alone() -> None:
    machine = Machine()
    machine.answers[CHUNK] = ProcessGone("proc/1", "the process ended")
    done = machine.carry(move("a", size=4 * CHUNK), move("b", 8 * CHUNK), threads=1)
    assert done["a"].bytes == CHUNK
    assert done["a"].ended is not None
    assert done["a"].ended.reason is Reason.NOT_RUNNING
    assert done["b"].bytes == CHUNK


def test_told_to_stop_it_ends_with_the_ranges_that_it_is_at() -> None:
    machine = Machine()
    machine.stop = True
    assert machine.carry(move())["a"].bytes == 0
