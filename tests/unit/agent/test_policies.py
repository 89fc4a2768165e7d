"""What VMs' definitions say, kept in a real store."""

from __future__ import annotations

import pytest

from memhint.agent.policies import Policies
from memhint.objects.domain import DomainFacts
from memhint.objects.policy import Origin
from memhint.store import Store

CONTRADICTING = {"fast_min": "60%", "fast_max": "40%"}


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
