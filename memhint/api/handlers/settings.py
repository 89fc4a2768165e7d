"""What holds for a VM: an operator's wishes over what its host told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memhint.api.route import Call
from memhint.controller.reconcile import operators
from memhint.objects.policy import KEYS, PRECEDENCE, Origin, careful_value
from memhint.objects.report import DomainReport
from memhint.store.rows.policies import StoredPolicies

Settings = dict[str, dict[str, Any]]
Inputs = Mapping[Origin, Mapping[str, str]]


def settings_of(call: Call, uuid: str, stored: StoredPolicies, one: DomainReport | None) -> Settings:
    """Each key's value and its origin. Null where only the host knows and has not told yet."""
    inputs = stored.inputs.get(uuid, {})
    found = over(wishes_of(held_here(call, uuid), inputs, one), beneath(call, inputs, one))
    return in_doubt(found, told_by_host(call, one)) if uuid in stored.unreadable else found


def told_by_host(call: Call, one: DomainReport | None) -> Settings | None:
    """What its host does, where that is not by this store: in a fleet. None where it is, or nothing was told."""
    if one is None or call.parts.inputs is not None:
        return None
    return {name: {"value": said.value, "origin": str(said.origin)} for name, said in one.policy.settings.items()}


def in_doubt(found: Settings, told: Settings | None) -> Settings:
    """What is shown of a VM one of whose wishes this store cannot read.

    An agent withdraws all consents where it finds such a wish in its own store. A fleet's host is told of all wishes or
    of none, so it goes on as before, or knows more than this process: what it does is what it tells.
    """
    return {**found, **told} if told is not None else with_care(found)


def held_here(call: Call, uuid: str) -> bool:
    """Whether this store has what an operator wishes of a VM; in a fleet it may be its host alone that has it."""
    return call.parts.inputs is not None or call.parts.store.central_policies.of(uuid) is not None


def wishes_of(held: bool, inputs: Inputs, one: DomainReport | None) -> Mapping[str, str]:
    """What an operator wishes: of this store where it holds the VM, else as its host tells."""
    if held:
        return inputs.get(Origin.OPERATOR, {})
    return operators(one.policy) if one else {}


def over(wishes: Mapping[str, str], others: Settings) -> Settings:
    """An operator's wishes, and the others where he has none."""
    return {
        name: {"value": wishes[name], "origin": str(Origin.OPERATOR)} if name in wishes else others[name]
        for name in KEYS
    }


def with_care(settings: Settings) -> Settings:
    """The same with each consent withdrawn, as an agent has it that finds a wish that it cannot read."""
    found = {}
    for name, one in settings.items():
        value = careful_value(name, one["value"])
        found[name] = one if value == one["value"] else {"value": value, "origin": str(Origin.DEFAULT)}
    return found


def beneath(call: Call, inputs: Inputs, one: DomainReport | None) -> Settings:
    """What would hold without the operator: what the host says, else what this store and configuration know."""
    if one is not None and call.parts.inputs is not None and one.careful:
        one = None  # its host tells which consents are withdrawn, and not what will hold once the wish is said again
    here = {**inputs, **(call.parts.inputs or {})}
    found: Settings = {}
    for name in KEYS:
        told = one.policy.settings.get(name) if one else None
        if told is not None and told.origin is not Origin.OPERATOR:
            found[name] = {"value": told.value, "origin": str(told.origin)}
            continue
        said = [origin for origin in PRECEDENCE if origin is not Origin.OPERATOR and name in here.get(origin, {})]
        if said:
            found[name] = {"value": here[said[0]][name], "origin": str(said[0])}
        elif call.parts.inputs is not None:  # this process is configured as the host is: the shipped default holds
            found[name] = {"value": KEYS[name].default, "origin": str(Origin.DEFAULT)}
        else:
            found[name] = {"value": None, "origin": None}
    return found
