"""What VMs' definitions say, kept in a real store."""

from __future__ import annotations

import pytest

from memhint.agent.policies import Policies
from memhint.objects.domain import DomainFacts
from memhint.objects.policy import Origin, QosClass
from memhint.objects.units import GIB
from memhint.planner.plan import plan
from memhint.planner.settings import PlannerSettings
from memhint.planner.state import start
from memhint.store import Store
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
