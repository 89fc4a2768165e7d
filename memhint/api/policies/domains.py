"""Who may see VMs."""

from memhint.api.policies.base import OWN, documented

LIST = "memhint:domains:list"
SHOW = "memhint:domains:show"
HISTORY = "memhint:domains:history"

RULES = (
    documented(
        LIST, OWN, "List VMs. Who does not see the whole fleet is given those of the own project.", "GET /v1/domains"
    ),
    documented(SHOW, OWN, "Show one VM.", "GET /v1/domains/{uuid}"),
    documented(HISTORY, OWN, "Show a VM's key numbers over time.", "GET /v1/domains/{uuid}/history"),
)
