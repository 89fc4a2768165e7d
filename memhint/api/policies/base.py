"""Rules that the others are made of, and how one is written down."""

from __future__ import annotations

from oslo_policy.policy import DocumentedRuleDefault, Operation, RuleDefault

WHOLE = "memhint:whole"
OWN = "memhint:own"
CHANGE = "memhint:change"

RULES = (
    RuleDefault(
        WHOLE,
        "role:admin or role:service or (role:reader and system_scope:all)",
        "Sees the whole fleet: every host, and the VMs of every project. A static token without a project is of the "
        "system.",
    ),
    RuleDefault(
        OWN,
        f"rule:{WHOLE} or (role:reader and project_id:%(project_id)s)",
        "Sees what belongs to one project.",
    ),
    RuleDefault(CHANGE, "role:admin", "Changes what memhint does."),
)


def documented(name: str, check: str, description: str, *operations: str) -> DocumentedRuleDefault:
    """A rule; operations are written as in "GET /v1/hosts"."""
    where: list[Operation] = [{"method": one.split()[0], "path": one.split()[1]} for one in operations]
    return DocumentedRuleDefault(name, f"rule:{check}", description, where)
