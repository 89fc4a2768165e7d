"""Who may see what happened."""

from memhint.api.policies.base import OWN, documented

LIST = "memhint:events:list"

RULES = (
    documented(
        LIST,
        OWN,
        "List what happened. Who does not see the whole fleet is given what concerns VMs of the own project.",
        "GET /v1/events",
    ),
)
