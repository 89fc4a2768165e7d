"""Exclusions: each has its reason and its consequences, and a guest can only add one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memhint.objects.exclusion import FORBIDS, Exclusion, Mechanism
from memhint.objects.guest import GuestKernel
from memhint.objects.policy import Origin, effective
from memhint.planner.exclusions import exclusions, forbidden
from tests.unit import builders

SHIPPED = effective({})
KERNEL = GuestKernel(0.0, release="6.12.1", os="debian")


def reasons(policy=SHIPPED, kernel: GuestKernel | None = KERNEL, nodes: int = 1, **facts: object) -> list[Exclusion]:
    domain = builders.domain_observation(facts=builders.facts(**facts), guest_kernel=kernel)
    return [one.reason for one in exclusions(domain, policy, nodes)]


def test_an_ordinary_vm_has_none() -> None:
    assert reasons() == []
    assert reasons(kernel=None) == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"hugepages": True}, Exclusion.HUGEPAGES),
        ({"locked": True}, Exclusion.LOCKED),
        ({"realtime": True}, Exclusion.REALTIME),
        ({"vfio": True}, Exclusion.PASSTHROUGH),
        ({"confidential": True}, Exclusion.CONFIDENTIAL),
        ({"shared_memory": True}, Exclusion.FILE_BACKED),
        ({"shared_memory": True, "file_backed": True}, Exclusion.FILE_BACKED),
        ({"balloon": False}, Exclusion.NO_BALLOON),
        ({"os": "http://microsoft.com/win/11"}, Exclusion.UNSUPPORTED),
        ({"os": "http://freebsd.org/freebsd/14.0"}, Exclusion.UNSUPPORTED),
        ({"os": "windows"}, Exclusion.UNSUPPORTED),
    ],
)
def test_each_fact_of_the_definition_has_its_reason(facts: dict[str, object], reason: Exclusion) -> None:
    assert reasons(**facts) == [reason]


def test_strict_numa_binds_only_where_there_is_more_than_one_node() -> None:
    assert reasons(numa_strict=True, numa_nodes=(0,)) == []
    assert reasons(numa_strict=True, numa_nodes=(0,), nodes=2) == [Exclusion.NUMA_BOUND]


@pytest.mark.parametrize(
    ("kernel", "excluded"),
    [
        (GuestKernel(0.0, os="mswindows", release="20348"), True),
        (GuestKernel(0.0, release="4.18.0-553.el8"), True),
        (GuestKernel(0.0, release="5.6.19"), True),
        (GuestKernel(0.0, release="5.7.0"), False),
        (GuestKernel(0.0, release="10.0"), False),
        (GuestKernel(0.0, release="nonsense"), False),
        (GuestKernel(0.0, os="debian"), False),
    ],
)
def test_a_guest_whose_system_cannot_report_is_unsupported(kernel: GuestKernel, excluded: bool) -> None:
    assert reasons(kernel=kernel) == ([Exclusion.UNSUPPORTED] if excluded else [])


def test_policy_opts_out_and_says_whose_wish_it_was() -> None:
    policy = effective({Origin.FLAVOR: {"overcommit": "deny"}, Origin.AGGREGATE: {"class": "guaranteed"}})
    found = exclusions(builders.domain_observation(), policy)
    assert [one.reason for one in found] == [Exclusion.OPT_OUT, Exclusion.GUARANTEED]
    assert ["flavor" in found[0].detail, "aggregate" in found[1].detail] == [True, True]


def test_every_reason_has_its_consequences_and_the_strongest_speaks() -> None:
    assert set(FORBIDS) == set(Exclusion)
    domain = builders.domain_observation(facts=builders.facts(vfio=True, balloon=False))
    found = exclusions(domain, SHIPPED)
    assert forbidden(found, Mechanism.BALLOON).reason is Exclusion.PASSTHROUGH
    bare = exclusions(builders.domain_observation(facts=builders.facts(balloon=False)), SHIPPED)
    assert forbidden(bare, Mechanism.RETURN).reason is Exclusion.NO_BALLOON
    assert forbidden(bare, Mechanism.SWAP) is None


@given(release=st.text(max_size=20) | st.none(), os=st.text(max_size=20) | st.none(), locked=st.booleans())
def test_what_a_guest_says_only_adds_a_reason(release: str | None, os: str | None, locked: bool) -> None:
    domain = builders.domain_observation(facts=builders.facts(locked=locked), guest_kernel=None)
    liar = replace(domain, guest_kernel=GuestKernel(0.0, release=release, os=os))
    assert set(exclusions(domain, SHIPPED)) <= set(exclusions(liar, SHIPPED))
