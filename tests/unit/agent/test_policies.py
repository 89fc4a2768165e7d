"""What VMs' definitions say, kept in a real store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from memhint.agent.last_policies import LastPolicies
from memhint.agent.observer import Observation
from memhint.agent.policies import Policies
from memhint.agent.view import HostSnapshot
from memhint.objects.domain import DomainFacts
from memhint.objects.policy import Origin, QosClass
from memhint.objects.units import GIB
from memhint.planner.plan import Sight, plan
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from memhint.store import Store
from memhint.store.errors import StoreError
from memhint.store.rows.policies import StoredPolicies
from memhint.virt.domain_xml import parse_domain
from tests.unit import builders

CONTRADICTING = {"fast_min": "60%", "fast_max": "40%"}

FLAVOR = """<domain><memory unit='GiB'>8</memory><metadata>
<nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"><nova:flavor><nova:extraSpecs>
<nova:extraSpec name="memhint:{}">{}</nova:extraSpec>
</nova:extraSpecs></nova:flavor></nova:instance></metadata>
<devices><memballoon model="virtio" freePageReporting="on"/></devices></domain>"""


@pytest.mark.parametrize(
    ("key", "value", "in_full"),
    [
        ("overcommit", "Deny", True),
        ("class", "Guaranteed", True),
        ("overcommit", "alow", True),
        ("overcommit", "allow", False),
        ("class", "burstable", False),
    ],
)
def test_a_misspelt_opt_out_of_a_flavor_is_no_consent(store: Store, key: str, value: str, in_full: bool) -> None:
    facts = parse_domain(FLAVOR.format(key, value)).facts
    vm = builders.domain_observation(
        uuid="vm", facts=facts, process=builders.process(rss=GIB, swap=0, ksm_zero=0), guest=None, deep=None
    )
    policies = Policies(store.policies, {}).update({"vm": facts}).policies
    settings, state = PlannerSettings(), start(PlannerSettings())
    for now in (0.0, settings.new_vm_decay):
        planned = plan(builders.host_observation(), [vm], policies, state, now, settings)
        state = planned.state
    (demand,) = planned.plan.demands
    assert (demand.demand == demand.assigned) is in_full
    # An operator's wish is stronger than what a flavor says badly.
    store.policies.set_operator("vm", {"overcommit": "allow", "class": "burstable"})
    found = Policies(store.policies, {}).update({"vm": facts}).policies["vm"]
    assert (found.overcommit, found.qos) == (True, QosClass.BURSTABLE)


@pytest.mark.parametrize("origin", [Origin.METADATA, Origin.FLAVOR])
def test_a_vm_whose_values_contradict_each_other_costs_no_vm_its_policy(store: Store, origin: Origin) -> None:
    policies = Policies(store.policies, {})
    wrong = DomainFacts(memory=1 << 30, **{"policy" if origin is Origin.METADATA else "flavor_specs": CONTRADICTING})
    facts = {"wrong": wrong, "right": DomainFacts(memory=1 << 30, policy={"overcommit": "deny"})}
    for _ in range(2):
        holding = policies.update(facts)
        assert not holding.unreadable
        assert holding.policies["right"].settings["overcommit"].value == "deny"
        assert {key: holding.policies["wrong"].settings[key].value for key in CONTRADICTING} == CONTRADICTING
    assert store.policies.inputs("wrong") == {"wrong": {origin: CONTRADICTING}}


class FullStore:
    """One that can be read, and for a while takes nothing."""

    def __init__(self) -> None:
        self.inputs: dict[str, dict[Origin, Mapping[str, str]]] = {}
        self.full = False

    def of(self, uuids: Iterable[str]) -> StoredPolicies:
        return StoredPolicies({uuid: dict(inputs) for uuid, inputs in self.inputs.items()}, {})

    def replace(self, uuid: str, origin: Origin, values: Mapping[str, str]) -> None:
        if self.full:
            raise StoreError("database or disk is full")
        self.inputs.setdefault(uuid, {})[origin] = dict(values)


def test_a_denial_holds_though_the_store_does_not_take_it() -> None:
    store = FullStore()
    policies = LastPolicies(Policies(store, {}))

    def view(**said: str) -> HostSnapshot:
        domains = tuple(
            builders.domain_observation(uuid=uuid, facts=builders.facts(memory=GIB, policy=said)) for uuid in ("a", "b")
        )
        return policies.view(0.0, Observation(builders.host_observation(), domains, (), Sight.CLEAR))

    assert view(guest_actions="allow", overcommit="allow").policies["a"].guest_actions
    store.full = True
    for _ in range(2):
        seen = view(guest_actions="deny", overcommit="deny")
        for uuid in ("a", "b"):
            assert not seen.policies[uuid].guest_actions
            assert not seen.policies[uuid].overcommit
        assert [(gap.what, gap.detail) for gap in seen.gaps] == [("policies", "database or disk is full")]
    store.full = False
    assert view(guest_actions="deny", overcommit="deny").gaps == ()
    assert store.inputs["b"][Origin.METADATA] == {"guest_actions": "deny", "overcommit": "deny"}
