"""The balloon lever: only where it was allowed, never below the minimum, and given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.memory_ledger import MemoryLedger
from memhint.kernel.root import KernelRoot
from memhint.levers.balloon import BALLOON_KNOB, BalloonLever, build
from memhint.objects.domain import DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.lever import Observed
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB, MIB
from memhint.objects.verdict import Answer, Reason
from memhint.virt.errors import LibvirtCallFailed
from tests.unit import builders

ALLOWED = {"class": "best-effort", "balloon": "allow", "min_mb": "1024"}


class Host:
    """One VM with 4 GiB, and the targets its balloon was given."""

    def __init__(self, **policy: str) -> None:
        self.ledger = MemoryLedger()
        self.set_to: list[int] = []
        self.broken = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.lever = self.successor()
        self.policy = effective({Origin.OPERATOR: {**ALLOWED, **policy}})
        facts = builders.facts(memory=4 * GIB, balloon=True, deflate_on_oom=True)
        self.domain = builders.domain_observation(facts=facts, balloon_actual=4 * GIB)
        self.runs = self.domain.process.instance

    def successor(self, now: Callable[[], float] = lambda: 2.0) -> BalloonLever:
        return BalloonLever(self.ledger, lambda uuid: self, now, lambda instance: instance == self.runs)

    def starts_again(self) -> None:
        """Another QEMU, with all of the VM's memory."""
        process = self.domain.process
        assert process is not None
        self.domain = replace(self.domain, process=replace(process, pid=process.pid + 1), balloon_actual=4 * GIB)
        self.runs = self.domain.process.instance

    def set(self, size: int) -> None:
        if self.broken:
            raise LibvirtCallFailed("no monitor")
        self.meanwhile()
        self.set_to.append(size)

    def pull(self, size: int | None, *, dry_run: bool = False):
        return self.lever.pull(self.domain, self.policy, size, dry_run=dry_run)


def test_it_shrinks_in_steps_and_gives_back_what_there_was_first() -> None:
    host = Host()
    assert host.pull(3 * GIB).answer is Answer.APPLIED
    host.domain = replace(host.domain, balloon_actual=3 * GIB)
    assert host.lever.read(host.domain) is Observed.ON
    assert host.pull(3 * GIB).answer is Answer.UNCHANGED
    assert host.pull(2 * GIB).answer is Answer.APPLIED
    assert host.pull(None).answer is Answer.APPLIED
    assert host.set_to == [3 * GIB, 2 * GIB, 4 * GIB]
    assert host.ledger.all() == ()
    assert host.pull(None).answer is Answer.UNCHANGED


def test_the_next_step_waits_for_what_the_guest_says_of_its_memory_with_the_last_one_done() -> None:
    host = Host()
    now = 100.0
    host.lever = host.successor(lambda: now)

    def pull(size: int, *, actual: int, at: float):
        host.domain = replace(host.domain, balloon_actual=actual, guest=builders.guest_memory(at=at))
        return host.pull(size)

    assert pull(3 * GIB, actual=4 * GIB, at=90.0).answer is Answer.APPLIED
    now = 110.0
    early = pull(2 * GIB, actual=3500 * MIB, at=105.0)  # still on its way
    assert (early.answer, early.reason) == (Answer.PENDING, Reason.NONE)
    now = 120.0
    assert pull(2 * GIB, actual=3 * GIB, at=115.0).answer is Answer.PENDING  # read while it was
    now = 130.0
    assert pull(2 * GIB, actual=3 * GIB, at=115.0).answer is Answer.PENDING
    assert host.ledger.get(host.domain.uuid, BALLOON_KNOB).after == str(3 * GIB)
    assert pull(3500 * MIB, actual=3 * GIB, at=115.0).answer is Answer.APPLIED  # more is not waited for
    now = 140.0
    assert pull(2 * GIB, actual=3500 * MIB, at=135.0).answer is Answer.PENDING
    now = 150.0
    assert pull(2 * GIB, actual=3500 * MIB, at=145.0).answer is Answer.APPLIED
    assert host.set_to == [3 * GIB, 3500 * MIB, 2 * GIB]


def test_a_qemu_that_stands_still_keeps_nobody_waiting_who_lists_the_vms(tmp_path: Path) -> None:
    asked: list[str] = []
    counting = SimpleNamespace(call=lambda what, _: asked.append(what))
    host = Host()
    process = host.domain.process
    (tmp_path / f"proc/{process.pid}").mkdir(parents=True)
    (tmp_path / f"proc/{process.pid}/stat").write_text(f"1 (qemu) S {' '.join(['0'] * 18)} {process.start_ticks} 0")
    context = SimpleNamespace(ledger=MemoryLedger(), caller=None, counting=counting, root=KernelRoot(tmp_path))
    host.lever = build(cast("Any", context))
    assert host.pull(3 * GIB).answer is Answer.APPLIED
    assert asked == ["balloon target"]


def test_policy_allows_it_or_not() -> None:
    for policy in ({"balloon": "deny"}, {"class": "burstable"}, {"class": "guaranteed"}):
        host = Host(**policy)
        assert host.pull(3 * GIB).reason is Reason.CONSENT
        assert host.set_to == []
    host = Host()
    assert host.pull(512 * MIB).reason is Reason.HEADROOM
    assert host.pull(5 * GIB).reason is Reason.HEADROOM
    assert host.set_to == []


def test_a_balloon_that_does_not_deflate_by_itself_is_left_alone() -> None:
    host = Host()
    host.domain = replace(host.domain, facts=replace(host.domain.facts, deflate_on_oom=False))
    assert host.pull(3 * GIB).reason is Reason.DEVICE
    host.domain = replace(host.domain, facts=replace(host.domain.facts, balloon=False))
    assert host.pull(3 * GIB).reason is Reason.DEVICE
    assert host.lever.read(host.domain) is Observed.UNSUPPORTED


def test_somebody_else_s_balloon_is_a_conflict() -> None:
    host = Host()
    host.domain = replace(host.domain, balloon_actual=3 * GIB)
    assert host.pull(2 * GIB).answer is Answer.CONFLICT
    assert host.pull(None).answer is Answer.UNCHANGED
    assert host.set_to == []


def test_a_dry_run_changes_nothing() -> None:
    host = Host()
    planned = host.pull(3 * GIB, dry_run=True)
    assert planned.answer is Answer.PLANNED
    assert "huge pages" in planned.detail
    assert (host.set_to, host.ledger.all()) == ([], ())


def test_the_mark_is_there_before_libvirt_is_asked_and_a_failure_keeps_it() -> None:
    host = Host()
    host.broken = True
    assert host.pull(3 * GIB).answer is Answer.FAILED
    assert host.ledger.get(host.domain.uuid, BALLOON_KNOB) is not None
    host.broken = False
    assert host.pull(None).answer is Answer.APPLIED
    assert host.set_to == [4 * GIB]


@pytest.mark.parametrize("wish", [None, 3 * GIB, 2 * GIB, 3500 * MIB])
def test_a_smaller_target_that_somebody_set_since_is_left_so(wish: int | None) -> None:
    host = Host()
    host.pull(3 * GIB)
    host.domain = replace(host.domain, balloon_actual=2560 * MIB)
    assert host.pull(wish, dry_run=True).answer is Answer.CONFLICT
    assert len(host.ledger.all()) == 1
    assert host.pull(wish).answer is Answer.CONFLICT
    assert host.ledger.all() == ()
    assert host.pull(None).answer is Answer.UNCHANGED
    assert host.set_to == [3 * GIB]


def test_the_successor_of_a_killed_agent_leaves_a_smaller_target_too() -> None:
    host = Host()
    host.pull(3 * GIB)
    host.lever = host.successor()
    host.domain = replace(host.domain, balloon_actual=2 * GIB)
    assert host.pull(None).answer is Answer.CONFLICT
    assert host.set_to == [3 * GIB]


@pytest.mark.parametrize("successor", [False, True])
def test_a_balloon_on_its_way_up_from_memhint_s_own_target_is_nobody_else_s(successor: bool) -> None:
    host = Host()
    host.pull(2 * GIB)
    host.pull(3 * GIB)
    if successor:
        host.lever = host.successor()
    host.domain = replace(host.domain, balloon_actual=2100 * MIB)
    assert host.pull(None).answer is Answer.APPLIED
    assert host.set_to[-1] == 4 * GIB


def test_once_it_has_come_up_a_smaller_one_is_somebody_else_s() -> None:
    host = Host()
    host.pull(2 * GIB)
    host.domain = replace(host.domain, balloon_actual=2 * GIB)
    host.pull(3 * GIB)
    host.domain = replace(host.domain, balloon_actual=3 * GIB)
    assert host.pull(3 * GIB).answer is Answer.UNCHANGED
    host.domain = replace(host.domain, balloon_actual=2560 * MIB)
    assert host.pull(None).answer is Answer.CONFLICT
    assert host.set_to == [2 * GIB, 3 * GIB]


def test_a_target_that_took_effect_although_libvirt_was_late_is_memhint_s() -> None:
    host = Host()
    host.pull(3 * GIB)
    host.domain = replace(host.domain, balloon_actual=3 * GIB, guest=builders.guest_memory(at=5.0))
    host.pull(3 * GIB)
    host.broken = True
    assert host.pull(2 * GIB).answer is Answer.FAILED
    host.pull(2 * GIB)  # it has not moved yet
    host.broken = False
    host.domain = replace(host.domain, balloon_actual=2 * GIB)
    assert host.pull(None).answer is Answer.APPLIED
    assert host.set_to[-1] == 4 * GIB


def test_what_was_marked_and_not_done_is_asked_for_again() -> None:
    host = Host()
    host.broken = True
    assert host.pull(3 * GIB).answer is Answer.FAILED
    host.broken = False
    assert host.pull(3 * GIB).answer is Answer.APPLIED
    assert host.pull(3 * GIB).answer is Answer.UNCHANGED
    assert host.set_to == [3 * GIB]


def test_a_guest_that_took_memory_back_is_not_asked_again_for_the_same() -> None:
    host = Host()
    host.pull(3 * GIB)
    assert host.lever.owned()
    host.domain = replace(host.domain, balloon_actual=4 * GIB)  # it deflated by itself, to spare a process
    assert host.pull(3 * GIB).answer is Answer.UNCHANGED
    assert host.set_to == [3 * GIB]


def test_the_successor_of_a_killed_agent_asks_once() -> None:
    host = Host()
    host.pull(3 * GIB)
    host.domain = replace(host.domain, balloon_actual=3 * GIB)
    host.lever = host.successor()
    assert host.pull(3 * GIB).answer is Answer.APPLIED
    assert host.pull(3 * GIB).answer is Answer.UNCHANGED
    assert host.ledger.get(host.domain.uuid, BALLOON_KNOB).before == str(4 * GIB)


def test_a_vm_that_started_since_has_nothing_to_get_back() -> None:
    host = Host()
    host.pull(3 * GIB)
    host.starts_again()
    assert host.pull(None).answer is Answer.UNCHANGED
    assert host.ledger.all() == ()
    assert host.set_to == [3 * GIB]


@pytest.mark.parametrize("wish", [None, 3 * GIB])
def test_what_was_asked_of_a_qemu_that_ended_meanwhile_may_have_come_to_the_next_one(wish: int | None) -> None:
    """libvirt knows a domain, and the call waited for it."""
    host = Host()
    host.meanwhile = host.starts_again
    host.pull(3 * GIB)
    host.meanwhile = lambda: None
    assert host.pull(wish).answer is Answer.APPLIED
    assert host.set_to == [3 * GIB, 4 * GIB]
    assert host.ledger.all() == ()


def test_the_successor_of_a_killed_agent_does_not_know_whom_it_reached() -> None:
    host = Host()
    host.pull(3 * GIB)
    host.lever = host.successor()
    host.starts_again()
    assert host.pull(None).answer is Answer.APPLIED
    assert host.set_to == [3 * GIB, 4 * GIB]


def test_a_new_qemu_without_a_balloon_has_nothing_to_get_back() -> None:
    host = Host()
    host.pull(3 * GIB)
    host.lever = host.successor()
    host.starts_again()
    host.domain = replace(host.domain, facts=replace(host.domain.facts, balloon=False), balloon_actual=None)
    assert host.pull(None).answer is Answer.UNCHANGED
    assert (host.set_to, host.ledger.all()) == ([3 * GIB], ())


def test_a_qemu_that_has_ended_is_not_asked() -> None:
    host = Host()
    host.runs = "another"
    assert host.pull(3 * GIB).answer is Answer.PENDING
    assert (host.set_to, host.ledger.all()) == ([], ())


def test_the_mark_that_a_restored_vm_brought_stays_though_an_old_look_shows_another_process() -> None:
    host = Host()
    seen = host.domain
    host.pull(3 * GIB)
    host.starts_again()
    mark = replace(host.ledger.get(seen.uuid, BALLOON_KNOB), instance=host.runs)
    host.ledger.put(mark)
    host.domain = seen
    assert host.pull(None).answer is Answer.PENDING
    assert host.ledger.all() == (mark,)


@pytest.mark.parametrize(("memory", "actual"), [(8 * GIB, 7 * GIB), (3 * GIB, 2 * GIB)])
def test_what_was_plugged_in_or_out_meanwhile_is_given_back_with_the_rest(memory: int, actual: int) -> None:
    host = Host()
    host.pull(3 * GIB)
    host.domain = replace(host.domain, facts=replace(host.domain.facts, memory=memory), balloon_actual=actual)
    assert host.pull(None).answer is Answer.APPLIED
    assert host.set_to[-1] == memory


@pytest.mark.parametrize("wish", [None, 3 * GIB])
def test_the_mark_of_a_vm_that_is_being_restored_is_kept_until_it_is_known_what_it_brought(wish: int | None) -> None:
    host = Host()
    host.pull(3 * GIB)
    mark = host.ledger.get(host.domain.uuid, BALLOON_KNOB)
    running = replace(host.domain, process=replace(host.domain.process, pid=99999), balloon_actual=None)
    unread = replace(running, gaps=(Gap("definition", GapReason.TIMEOUT),))
    for host.domain in (replace(running, state=DomainState.PAUSED), unread):
        assert host.pull(wish).answer is Answer.PENDING
        assert host.ledger.all() == (mark,)
    assert host.set_to == [3 * GIB]


def test_a_stopped_vm_is_not_asked() -> None:
    host = Host()
    host.domain = replace(host.domain, state=DomainState.SHUTOFF)
    assert host.pull(3 * GIB).reason is Reason.NOT_RUNNING
