"""Who may merge with whom: one project at a time, nobody who did not ask."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.domain import DomainState
from memhint.objects.estimate import DedupEstimate
from memhint.objects.policy import Origin, effective
from memhint.objects.units import GIB
from memhint.objects.verdict import Answer, Reason
from memhint.planner.dedup import AutoInput, plan_dedup
from memhint.planner.dedup_auto import AutoState
from tests.unit import builders


def vm(number: int, project: str | None = "p1", **changes: object):
    facts = builders.facts(project=project, memory=changes.pop("memory", 1 * GIB))
    facts = replace(facts, **{k: changes.pop(k) for k in list(changes) if hasattr(facts, k)})
    return builders.domain_observation(uuid=f"vm-{number}", name=f"vm-{number}", facts=facts, **changes)


def plan(domains, asks, current=None, allow=False):
    policies = {one.uuid: effective({Origin.OPERATOR: {"dedup": asks.get(one.uuid, "off")}}) for one in domains}
    return plan_dedup(domains, policies, current, allow)


def test_nobody_asked_nobody_merges() -> None:
    found = plan([vm(1), vm(2)], {})
    assert found.members == frozenset()
    assert found.verdicts["vm-1"].reason is Reason.OPT_OUT


def test_those_who_ask_merge_and_the_others_do_not() -> None:
    found = plan([vm(1), vm(2), vm(3)], {"vm-1": "on", "vm-2": "on"})
    assert found.members == {"vm-1", "vm-2"}


def test_a_second_project_is_refused_and_told_why() -> None:
    found = plan([vm(1), vm(2), vm(4, "p2")], {"vm-1": "on", "vm-2": "on", "vm-4": "on"})
    assert found.members == {"vm-1", "vm-2"}
    assert found.verdicts["vm-4"].answer is Answer.REFUSED
    assert found.verdicts["vm-4"].reason is Reason.TENANT
    assert "another project has" in found.verdicts["vm-4"].detail
    assert found.project is not None
    assert found.project not in found.verdicts["vm-4"].detail


def test_the_project_that_merges_keeps_the_pool_while_it_has_two() -> None:
    domains = [vm(1), vm(2), vm(3, "p2", memory=8 * GIB), vm(4, "p2", memory=8 * GIB)]
    asks = {one.uuid: "on" for one in domains}
    assert plan(domains, asks).project == "p2"
    assert plan(domains, asks, current="p1").project == "p1"
    assert plan(domains[1:], {k: v for k, v in asks.items() if k != "vm-1"}, current="p1").project == "p2"


def test_allow_cross_tenant_merges_all_who_ask() -> None:
    found = plan([vm(1), vm(2, "p2"), vm(3, None)], {"vm-1": "on", "vm-2": "on", "vm-3": "on"}, allow=True)
    assert found.members == {"vm-1", "vm-2", "vm-3"}


def test_a_vm_of_nobody_is_refused() -> None:
    found = plan([vm(1, None)], {"vm-1": "on"})
    assert found.verdicts["vm-1"].reason is Reason.NO_PROJECT


def test_auto_waits_for_an_estimate() -> None:
    assert plan([vm(1)], {"vm-1": "auto"}).verdicts["vm-1"].reason is Reason.NO_ESTIMATE


def test_what_ksm_cannot_merge_is_unsupported_not_off() -> None:
    for name in ("shared_memory", "hugepages", "no_share_pages"):
        found = plan([vm(1, **{name: True})], {"vm-1": "on"})
        assert found.verdicts["vm-1"].answer is Answer.UNSUPPORTED


def test_a_stopped_vm_is_pending() -> None:
    assert plan([vm(1, state=DomainState.SHUTOFF)], {"vm-1": "on"}).verdicts["vm-1"].answer is Answer.PENDING


@pytest.mark.parametrize("wish", ["on", "auto"])
def test_a_vm_whose_process_was_not_read_is_no_member_and_is_not_taken_out(wish: str) -> None:
    domains = [vm(1), vm(2), vm(3, process=None)]
    policies = {one.uuid: effective({Origin.OPERATOR: {"dedup": wish}}) for one in domains}
    auto = AutoInput(DedupEstimate(), state=AutoState(("vm-1", "vm-2", "vm-3")))
    found = plan_dedup(domains, policies, None, False, auto=auto)
    assert found.members == {"vm-1", "vm-2"}
    assert found.verdicts["vm-3"].answer is Answer.PENDING
    assert "vm-3" in found.spared
    assert ("vm-3" in found.auto.members) is (wish == "auto")


@given(st.lists(st.tuples(st.sampled_from(["p1", "p2", "p3", None]), st.sampled_from(["on", "off", "auto"]))))
def test_members_are_of_one_project_and_asked_for_it(wishes: list[tuple[str | None, str]]) -> None:
    domains = [vm(number, project) for number, (project, _) in enumerate(wishes)]
    found = plan(domains, {f"vm-{number}": wish for number, (_, wish) in enumerate(wishes)})
    assert len({one.facts.project for one in domains if one.uuid in found.members}) <= 1
    for number, (_, wish) in enumerate(wishes):
        if f"vm-{number}" in found.members:
            assert wish == "on"
        else:
            assert f"vm-{number}" in found.verdicts
