"""What memhint changed of a VM is known where the VM goes, and forgotten where it has left."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.agent import build as building
from memhint.agent.build_levers import STAYING, TRAVELLING
from memhint.agent.parts import Stores
from memhint.agent.reclaim_store import NoRequests
from memhint.agent.travelling_marks import TravellingMarks
from memhint.agent.view import HostSnapshot
from memhint.conf.load import load
from memhint.levers.balloon import BALLOON_KNOB
from memhint.levers.dedup_merge import MERGE_KNOB
from memhint.levers.recycler import PACE_KNOB
from memhint.levers.reporting import ORDER_KNOB
from memhint.levers.reporting_next_boot import NEXT_BOOT_KNOB
from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.ownership import Mark
from memhint.objects.units import GIB
from memhint.planner.plan import Sight
from memhint.virt.errors import DomainGone
from tests.unit import builders
from tests.unit.agent.fake_host import WAIT_S
from tests.unit.agent.views import view_of

WEB = "uuid-web"
SHRUNK = Mark(WEB, BALLOON_KNOB, str(4 * GIB), str(2 * GIB), "of the other host", 0.0)
FINER = Mark(WEB, ORDER_KNOB, "9", "4", "boot-1", 0.0)
DEFINED = Mark(WEB, NEXT_BOOT_KNOB, "", "on", "", 0.0)


class Host:
    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.carried: dict[str, Sequence[Mark]] = {}
        self.gone = False
        self.marks = TravellingMarks(self.ledger, self.write, TRAVELLING, STAYING)

    def write(self, uuid: str, marks: Sequence[Mark]) -> None:
        if self.gone:
            raise DomainGone("no such domain")
        self.carried[uuid] = marks

    def knobs(self) -> dict[str, str]:
        return {mark.knob: mark.instance for mark in self.ledger.all()}


def vm(pid: int = 7, actual: int = 2 * GIB) -> DomainObservation:
    facts = builders.facts(memory=4 * GIB)
    return replace(
        builders.domain_observation(facts=facts, balloon_actual=actual), uuid=WEB, process=builders.process(pid=pid)
    )


def seen(*domains: DomainObservation, **changes: object) -> HostSnapshot:
    view = view_of(domains, {one.uuid: builders.policy() for one in domains}, **changes)
    return replace(view, seen=replace(view.seen, marks={WEB: (SHRUNK, FINER)}))


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_running_domain_carries_what_goes_with_it(host: Host) -> None:
    for mark in (SHRUNK, FINER, DEFINED, replace(FINER, knob=MERGE_KNOB), replace(FINER, knob=PACE_KNOB)):
        host.marks.put(mark)
    assert {mark.knob for mark in host.carried[WEB]} == {BALLOON_KNOB, ORDER_KNOB, NEXT_BOOT_KNOB}
    host.marks.remove(WEB, BALLOON_KNOB)
    host.marks.remove(WEB, NEXT_BOOT_KNOB)
    assert [mark.knob for mark in host.carried[WEB]] == [ORDER_KNOB]
    host.marks.remove(WEB, ORDER_KNOB)
    assert host.carried[WEB] == []
    assert set(host.knobs()) == {MERGE_KNOB, PACE_KNOB}


def test_what_a_vm_is_to_start_with_comes_with_it(host: Host) -> None:
    view = seen(vm())
    host.marks.follow(replace(view, seen=replace(view.seen, marks={WEB: (DEFINED,)})))
    assert host.marks.settle(WAIT_S)
    assert host.ledger.all() == (DEFINED,)
    assert host.carried == {}


def test_what_a_vm_is_to_start_with_goes_along_after_it_was_started_anew(host: Host) -> None:
    """Its definition carries no marks, and so does a domain that begins with it."""
    host.marks.put(DEFINED)
    host.carried.clear()
    view = seen(vm(pid=8))
    host.marks.follow(replace(view, seen=replace(view.seen, marks={})))
    assert host.marks.settle(WAIT_S)
    assert list(host.carried[WEB]) == [DEFINED]


def test_where_it_comes_to_it_is_taken_up_once(host: Host) -> None:
    host.marks.follow(seen(vm()))
    assert host.knobs() == {BALLOON_KNOB: vm().process.instance, ORDER_KNOB: "boot-1"}  # type: ignore[union-attr]
    host.ledger.remove(WEB, BALLOON_KNOB)
    host.marks.follow(seen(vm()))  # given back, and its definition is an old one
    assert set(host.knobs()) == {ORDER_KNOB}


def test_a_reloaded_agent_takes_nothing_up_again(host: Host) -> None:
    host.marks.follow(seen(vm()))
    host.ledger.remove(WEB, BALLOON_KNOB)  # given back; its domain was busy, and bears the mark still
    after = Host()
    after.marks.inherit(host.marks)
    after.marks.follow(seen(vm()))
    assert after.knobs() == {}
    after.marks.follow(seen(vm(pid=8)))
    assert set(after.knobs()) == {BALLOON_KNOB, ORDER_KNOB}


class Counting(MemoryLedger):
    """One that counts how often all of it is read."""

    walks = 0

    def all(self) -> tuple[Mark, ...]:
        self.walks += 1
        return super().all()


def test_all_marks_are_read_as_often_for_many_new_vms_as_for_few(host: Host) -> None:
    """Each of them once more took minutes on a host with thousands, in the cycle's own thread."""
    ledger = Counting()
    marks = TravellingMarks(ledger, host.write, TRAVELLING, STAYING)
    domains = [replace(vm(pid=100 + number), uuid=f"vm-{number}") for number in range(50)]
    view = seen(*domains)
    brought = {one.uuid: (replace(FINER, subject=one.uuid),) for one in domains[:25]}
    for one in domains[25:]:
        ledger.put(replace(FINER, subject=one.uuid))
    marks.follow(replace(view, seen=replace(view.seen, marks=brought)))
    assert marks.settle(WAIT_S)
    assert ledger.walks <= 2
    assert set(host.carried) == {one.uuid for one in domains[25:]}
    ledger.walks = 0
    for one in domains:
        marks.remove(one.uuid, ORDER_KNOB)
        marks.put(replace(FINER, subject=one.uuid))
    assert ledger.walks == 0
    assert all(list(host.carried[one.uuid]) == list(ledger.of(one.uuid)) for one in domains)


def test_a_vm_whose_definition_is_not_read_yet_is_taken_up_later(host: Host) -> None:
    host.marks.follow(seen(vm(), unread=frozenset({WEB})))
    assert host.knobs() == {}
    host.marks.follow(seen(vm()))
    assert set(host.knobs()) == {BALLOON_KNOB, ORDER_KNOB}


@pytest.mark.parametrize(
    "early",
    [
        replace(vm(), state=DomainState.PAUSED, balloon_actual=None),
        replace(vm(), state=DomainState.INCOMING, balloon_actual=4 * GIB),
        replace(vm(), gaps=(Gap("definition", GapReason.TIMEOUT),)),
    ],
)
def test_of_a_vm_that_is_restored_or_arrives_nothing_is_taken_up_before_it_runs(
    host: Host, early: DomainObservation
) -> None:
    """Its definition may be that of before, and its balloon is not what it will be."""
    view = seen(early)
    host.marks.follow(replace(view, seen=replace(view.seen, marks={})))
    host.marks.follow(seen(vm()))
    assert set(host.knobs()) == {BALLOON_KNOB, ORDER_KNOB}


def test_a_balloon_of_a_vm_that_was_given_more_memory_since_is_taken_up(host: Host) -> None:
    host.marks.follow(seen(replace(vm(actual=6 * GIB), facts=builders.facts(memory=8 * GIB))))
    assert BALLOON_KNOB in host.knobs()


@pytest.mark.parametrize(
    "domain",
    [
        vm(actual=4 * GIB),  # it has all of its memory: it was started again since
        replace(vm(), facts=builders.facts(memory=3 * GIB)),  # more than it has
        replace(vm(), balloon_actual=None),
    ],
)
def test_a_balloon_that_cannot_be_memhints_is_not_taken_up(host: Host, domain: DomainObservation) -> None:
    host.marks.follow(seen(domain))
    assert set(host.knobs()) == {ORDER_KNOB}


@pytest.mark.parametrize("sizes", [("all", "2"), ("\N{SUPERSCRIPT TWO}", "2"), ("4096", "half"), ("4096", "")])
def test_a_balloon_s_mark_without_sizes_is_not_taken_up(host: Host, sizes: tuple[str, str]) -> None:
    view = seen(vm())
    strange = replace(SHRUNK, before=sizes[0], after=sizes[1])
    host.marks.follow(replace(view, seen=replace(view.seen, marks={WEB: (strange,)})))
    assert host.knobs() == {}


def test_what_belongs_to_another_knob_is_not_taken_up(host: Host) -> None:
    view = seen(vm())
    strange = replace(FINER, knob=MERGE_KNOB)
    host.marks.follow(replace(view, seen=replace(view.seen, marks={WEB: (strange,)})))
    assert host.knobs() == {}
    assert MERGE_KNOB not in TRAVELLING


def test_what_a_vm_has_left_behind_is_forgotten_but_not_at_once(host: Host) -> None:
    for mark in (SHRUNK, FINER, replace(FINER, knob=MERGE_KNOB)):
        host.marks.put(mark)
    host.gone = True
    for _ in range(2):
        host.marks.follow(seen())
    host.marks.follow(seen(sight=Sight.STALE))
    host.marks.follow(replace(seen(), seen=replace(seen().seen, listed=False)))
    assert len(host.knobs()) == 3
    host.marks.follow(seen())
    assert set(host.knobs()) == {MERGE_KNOB}  # the lever that made it sees to it


@pytest.mark.parametrize("knob", [NEXT_BOOT_KNOB, PACE_KNOB])
def test_what_is_of_a_definition_or_a_qemu_ends_with_the_domain_and_not_with_its_qemu(host: Host, knob: str) -> None:
    host.marks.put(replace(FINER, knob=knob))
    off = replace(vm(), state=DomainState.SHUTOFF, process=None, balloon_actual=None)
    for _ in range(5):
        host.marks.follow(seen(off))
    for _ in range(2):
        host.marks.follow(seen())
    host.marks.follow(seen(off))  # as where it is defined anew for a hard reboot
    for _ in range(2):
        host.marks.follow(seen())
    assert set(host.knobs()) == {knob}
    host.marks.follow(seen())
    assert host.knobs() == {}


def test_a_domain_that_takes_no_marks_keeps_nobody_from_working(host: Host) -> None:
    host.gone = True
    host.marks.put(SHRUNK)
    assert host.marks.get(WEB, BALLOON_KNOB) == SHRUNK


def test_what_is_marked_while_a_domain_is_written_to_is_written_after_it(host: Host) -> None:
    begun, go_on = threading.Event(), threading.Event()
    write = host.write

    def slow(uuid: str, marks: Sequence[Mark]) -> None:
        if not begun.is_set():
            begun.set()
            assert go_on.wait(WAIT_S)
        write(uuid, marks)

    host.marks = TravellingMarks(host.ledger, slow, TRAVELLING, STAYING)
    threads = [threading.Thread(target=host.marks.put, args=(mark,)) for mark in (SHRUNK, FINER)]
    threads[0].start()
    assert begun.wait(WAIT_S)
    threads[1].start()
    threads[1].join(0.2)  # were it not to wait, it would be done by then
    go_on.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert {mark.knob for mark in host.carried[WEB]} == {BALLOON_KNOB, ORDER_KNOB}


def test_a_domain_that_did_not_take_its_marks_gets_them_in_a_later_cycle(host: Host) -> None:
    host.marks.follow(seen(vm()))
    assert host.marks.settle(WAIT_S)
    host.carried.clear()
    host.gone = True
    host.marks.put(replace(SHRUNK, after=str(GIB)))
    host.marks.follow(seen(vm()))
    assert host.marks.settle(WAIT_S)
    assert WEB not in host.carried
    host.gone = False
    after = TravellingMarks(host.ledger, host.write, TRAVELLING, STAYING)
    after.inherit(host.marks)
    after.follow(seen(vm()))
    assert after.settle(WAIT_S)
    assert list(host.carried.pop(WEB)) == list(host.ledger.all())
    after.follow(seen(vm()))
    assert after.settle(WAIT_S)
    assert host.carried == {}


def test_no_cycle_waits_for_a_domain_that_is_written_to_again(host: Host) -> None:
    writers: list[threading.Thread] = []
    host.gone = True
    host.marks.put(SHRUNK)
    host.gone = False
    write = host.write
    host.marks = TravellingMarks(
        host.ledger, lambda *told: (writers.append(threading.current_thread()), write(*told))[1], TRAVELLING, STAYING
    )
    view = seen(vm())
    host.marks.follow(replace(view, seen=replace(view.seen, marks={})))  # a killed agent did not come to write it
    assert host.marks.settle(WAIT_S)
    assert host.carried[WEB] == [SHRUNK]
    assert threading.current_thread() not in writers


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_leaves_a_domain_without_the_marks_that_it_should_carry(
    dry_run: bool, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memhint.conf").write_text("[DEFAULT]\nhost_name = host-a\n[dedup]\nestimate_cpu_percent = 0\n")
    monkeypatch.setattr(building, "DomainMarks", lambda caller: host)
    monkeypatch.setattr(building, "build_levers", lambda context: ())
    host.ledger.put(SHRUNK)
    nothing = cast("Any", SimpleNamespace())
    stores = Stores(nothing, host.ledger, nothing, nothing, nothing, NoRequests())
    built = building.build(load([tmp_path / "memhint.conf"]), stores, "epoch", dry_run=dry_run)
    try:
        view = seen(vm())
        built.parts.marks.follow(replace(view, seen=replace(view.seen, marks={})))
        assert built.parts.marks.settle(WAIT_S)
    finally:
        built.close()
    assert (WEB in host.carried) is not dry_run
