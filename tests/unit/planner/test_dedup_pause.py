"""A member that is paused for a moment stays one; one that stays paused does not, nor does a newcomer begin paused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memhint.objects.domain import DomainObservation, DomainState
from memhint.objects.estimate import DedupEstimate, GroupEstimate, KsmCost
from memhint.objects.policy import Origin, effective
from memhint.objects.relief import Relief
from memhint.objects.units import GIB
from memhint.objects.verdict import Reason
from memhint.planner.dedup import DedupPlan
from memhint.planner.dedup_cycle import next_dedup
from memhint.planner.dedup_pause import KEPT
from memhint.planner.host_cycle import HostCycle
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import PlannerState, start
from tests.unit import builders

SETTINGS = PlannerSettings()
NAMES = ("a", "b")
PAYS = GroupEstimate("p1", NAMES, 1.0, 2 * GIB, 0, 0, GIB, GIB, 0, KsmCost(0, 0.0, 0.0))


def vm(name: str, number: int, state: DomainState = DomainState.RUNNING) -> DomainObservation:
    return builders.domain_observation(
        uuid=name,
        name=name,
        state=state,
        facts=builders.facts(memory=GIB, project="p1"),
        process=builders.process(pid=number, rss=GIB, ksm_merging=0, ksm_zero=0),
    )


class Host:
    """Two VMs of one project that ask to merge, one cycle after the other."""

    def __init__(self, wish: str) -> None:
        self.wish = wish
        self.state: PlannerState = start(SETTINGS)
        self.vms = [vm("a", 1), vm("b", 2)]
        self.estimated: DedupEstimate | None = None

    def cycle(self, now: float) -> DedupPlan:
        policy = effective({Origin.OPERATOR: {"dedup": self.wish}})
        found, self.state = next_dedup(
            HostCycle(
                host=builders.host_observation(ksm=builders.ksm(run=1)),
                domains=self.vms,
                policies={one.uuid: policy for one in self.vms},
                unread=frozenset(),
                missing=None,
                estimated=self.estimated,
                relief=Relief(),
                idle=frozenset(),
                calm=True,
                now=now,
                elapsed=10.0,
                settings=SETTINGS,
            ),
            self.state,
        )
        return found

    def pause(self, state: DomainState = DomainState.PAUSED) -> None:
        self.vms[0] = replace(self.vms[0], state=state)


@pytest.mark.parametrize("state", [DomainState.PAUSED, DomainState.INCOMING])
def test_a_member_that_is_paused_stays_one_for_a_while(state: DomainState) -> None:
    host = Host("on")
    assert host.cycle(0.0).members == {"a", "b"}
    host.pause(state)
    for now in (10.0, 10.0 + KEPT - 1):
        assert host.cycle(now).members == {"a", "b"}
    for now in (10.0 + KEPT, 20.0 + KEPT, 30.0 + KEPT):
        found = host.cycle(now)
        assert (found.members, found.verdicts["a"].reason) == ({"b"}, Reason.NOT_RUNNING)


def test_each_pause_counts_for_itself() -> None:
    host = Host("on")
    host.cycle(0.0)
    for now in (10.0, 2 * KEPT):
        host.pause()
        assert host.cycle(now).members == {"a", "b"}
        host.pause(DomainState.RUNNING)
        assert host.cycle(now + 10.0).members == {"a", "b"}


def test_on_auto_a_pause_costs_no_new_look() -> None:
    host = Host("auto")
    host.estimated = DedupEstimate(groups=(PAYS,), asking=(PAYS,))
    assert host.cycle(0.0).members == {"a", "b"}
    host.pause()
    # One that is paused is looked at by nobody, and of the other alone merging saves nothing.
    alone = replace(PAYS, members=("b",), looked=GIB, across=0, saving=0)
    host.estimated = DedupEstimate(groups=(alone,), asking=(alone,))
    assert host.cycle(10.0).members == {"a", "b"}
    host.pause(DomainState.RUNNING)
    assert host.cycle(20.0).members == {"a", "b"}


def test_one_that_did_not_merge_does_not_begin_while_it_is_paused() -> None:
    host = Host("on")
    host.pause()
    assert host.cycle(0.0).members == {"b"}
    assert host.cycle(10.0).members == {"b"}


def test_another_process_of_the_same_vm_is_another() -> None:
    host = Host("on")
    host.cycle(0.0)
    host.vms[0] = vm("a", 7, DomainState.PAUSED)
    assert host.cycle(10.0).members == {"b"}


def test_one_that_opts_out_while_it_is_paused_is_out() -> None:
    host = Host("on")
    host.cycle(0.0)
    host.pause()
    host.wish = "off"
    assert host.cycle(10.0).members == frozenset()


def test_one_that_was_shut_off_is_not_paused() -> None:
    host = Host("on")
    host.cycle(0.0)
    host.vms[0] = replace(host.vms[0], state=DomainState.SHUTOFF, process=None)
    assert host.cycle(10.0).members == {"b"}
