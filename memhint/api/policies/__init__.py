"""Who may do what: the rules of oslo.policy, one file per resource."""

from __future__ import annotations

from oslo_policy.policy import RuleDefault

from memhint.api.policies import (
    base,
    domains,
    events,
    history,
    hosts,
    metrics,
    plans,
    policies,
    promises,
    reclaims,
    refusals,
    stream,
)


def list_rules() -> list[RuleDefault]:
    """Every rule, in the order of the sample file."""
    areas = (base, hosts, history, promises, domains, policies, plans, reclaims, refusals, events, stream, metrics)
    return [rule for area in areas for rule in area.RULES]
