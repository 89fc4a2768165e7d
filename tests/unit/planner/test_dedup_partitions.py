"""A number for each group, never shared; and who merges at the same time as whom."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.domain import DomainState
from memhint.objects.policy import Origin, effective
from memhint.objects.verdict import Reason
from memhint.planner import dedup_partitions
from memhint.planner.dedup import plan_dedup
from memhint.planner.dedup_partitions import Apart, apart, group_of, numbers
from tests.unit import builders

UUIDS = st.sampled_from([f"vm-{number}" for number in range(6)])
GROUPS = st.dictionaries(UUIDS, st.sampled_from(["project p1", "project p2", "vm vm-9"]), min_size=1)
HELD = st.dictionaries(UUIDS, st.integers(1, 4))


@given(GROUPS, HELD)
def test_no_two_groups_have_one_number_and_none_has_everybodys(groups: dict[str, str], held: dict[str, int]) -> None:
    found = numbers(groups, held)
    assert found.keys() == groups.keys()
    assert all(0 < number < 1 << 32 for number in found.values())
    by_group: dict[str, set[int]] = {}
    for uuid, number in found.items():
        by_group.setdefault(groups[uuid], set()).add(number)
    assert all(len(one) == 1 for one in by_group.values())
    assert len(set.union(*by_group.values())) == len(by_group)


@given(GROUPS, HELD)
def test_a_number_of_a_vm_that_is_nobodys_any_more_is_given_to_no_other(groups: dict[str, str], held: dict[str, int]):
    strangers = {number for uuid, number in held.items() if uuid not in groups}
    known = {number for uuid, number in held.items() if uuid in groups}
    assert not (strangers - known) & set(numbers(groups, held).values())


@given(GROUPS, st.data())
def test_where_somebody_else_has_put_a_vm_no_other_group_is_put(groups: dict[str, str], data) -> None:
    own = numbers(groups, {})
    others = data.draw(st.dictionaries(UUIDS, st.sampled_from([*own.values(), 7])))
    found = numbers(groups, {}, others)
    for uuid, number in others.items():
        for other, group in groups.items():
            assert found[other] != number or groups.get(uuid) == group


@given(GROUPS)
def test_an_agent_without_its_marks_finds_its_own_numbers(groups: dict[str, str]) -> None:
    found = numbers(groups, {})
    assert numbers(groups, {}, found) == found


@given(GROUPS)
def test_who_begins_anew_comes_to_the_same(groups: dict[str, str]) -> None:
    found = numbers(groups, {})
    assert numbers(groups, found) == found
    assert numbers(dict(reversed(groups.items())), {}) == found


def test_a_group_keeps_the_number_that_its_vms_have() -> None:
    assert numbers({"a": "project p1", "b": "project p1"}, {"a": 7}) == {"a": 7, "b": 7}


def test_a_vm_that_changed_its_project_leaves_the_number_to_the_others() -> None:
    found = numbers({"a": "project p2", "b": "project p1", "c": "project p1"}, {"a": 7, "b": 7, "c": 7})
    assert found["b"] == found["c"] == 7
    assert found["a"] not in (0, 7)


def test_two_names_that_come_to_one_number_do_not_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedup_partitions, "_candidates", lambda group: iter((5, 6, 8)))
    assert numbers({"a": "project p1", "b": "project p2"}, {}) == {"a": 5, "b": 6}
    # and who has one keeps it, whoever comes first by name
    assert numbers({"a": "project p1", "b": "project p2"}, {"b": 5}) == {"a": 6, "b": 5}


def test_a_project_named_like_a_vm_is_not_that_vm() -> None:
    names = [group_of("x", None, False), group_of("y", "x", False), group_of("y", "vm x", False)]
    assert len(set(names)) == 3
    assert group_of("x", None, True) == group_of("y", "p1", True)


@pytest.mark.parametrize(
    ("partitions", "empty_only", "only", "across", "expected"),
    [
        (False, None, False, False, Apart()),
        (True, None, False, False, Apart(True, True)),
        (True, False, True, False, Apart(True, False)),  # the zero page is in no partition
        (True, False, True, True, Apart(True, True)),
        (False, False, True, True, Apart(False, True)),
        (False, None, True, True, Apart()),  # this kernel cannot
        (False, False, False, True, Apart()),
    ],
)
def test_who_merges_at_the_same_time(partitions, empty_only, only, across, expected) -> None:
    seen = builders.ksm(partitions=partitions, empty_only=empty_only)
    assert apart(seen, empty_only=only, empty_across=across) == expected


def test_a_host_without_ksm_keeps_nobody_apart() -> None:
    assert apart(None, empty_only=False, empty_across=False) == Apart()


def vm(number: int, project: str | None, **changes: object):
    facts = builders.facts(project=project)
    return builders.domain_observation(uuid=f"vm-{number}", name=f"vm-{number}", facts=facts, **changes)


def plan(domains, asks, keeps, *, allow=False):
    policies = {one.uuid: effective({Origin.OPERATOR: {"dedup": asks.get(one.uuid, "off")}}) for one in domains}
    return plan_dedup(domains, policies, None, allow, apart=keeps)


DOMAINS = [vm(1, "p1"), vm(2, "p1"), vm(3, "p2"), vm(4, "p2"), vm(5, None)]
ALL = {one.uuid: "on" for one in DOMAINS}


def test_where_ksm_keeps_projects_apart_all_of_them_merge() -> None:
    found = plan(DOMAINS, ALL, Apart(True, True))
    assert found.members == {"vm-1", "vm-2", "vm-3", "vm-4"}
    assert (found.project, found.several) == (None, True)
    assert found.groups["vm-1"] == found.groups["vm-2"] != found.groups["vm-3"] == found.groups["vm-4"]
    # whose it is is not known: it merges with nobody, as without partitions
    assert found.verdicts["vm-5"].reason is Reason.NO_PROJECT
    assert found.groups["vm-5"] not in (found.groups["vm-1"], found.groups["vm-3"])


def test_as_ksm_is_one_project_merges_and_nobody_is_put_anywhere() -> None:
    found = plan(DOMAINS, ALL, Apart())
    assert found.members == {"vm-1", "vm-2"}
    assert (found.project, found.several, found.groups) == ("p1", False, {})


def test_one_project_alone_is_not_several() -> None:
    assert not plan(DOMAINS, {"vm-1": "on", "vm-2": "on"}, Apart(True, True)).several


def test_where_crossing_is_allowed_all_are_one_group() -> None:
    found = plan(DOMAINS, ALL, Apart(True, True), allow=True)
    assert found.members == set(ALL)
    assert len(set(found.groups.values())) == 1
    assert not found.several


def test_one_that_asked_and_rests_is_spared_in_each_project_that_merges() -> None:
    paused = vm(6, "p2", state=DomainState.PAUSED)
    found = plan([*DOMAINS, paused], {**ALL, "vm-6": "on"}, Apart(True, True))
    assert "vm-6" in found.spared
    assert "vm-6" not in plan([*DOMAINS, paused], {**ALL, "vm-6": "on"}, Apart()).spared
