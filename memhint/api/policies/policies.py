"""Who may see and set what holds for a VM."""

from memhint.api.policies.base import CHANGE, OWN, documented

SHOW = "memhint:policies:show"
UPDATE = "memhint:policies:update"
DELETE = "memhint:policies:delete"

RULES = (
    documented(SHOW, OWN, "Show what holds for a VM, and who said so.", "GET /v1/domains/{uuid}/policy"),
    documented(
        UPDATE, CHANGE, "Set an operator's wishes for a VM, also as a dry run.", "PUT /v1/domains/{uuid}/policy"
    ),
    documented(DELETE, CHANGE, "Take an operator's wishes for a VM back.", "DELETE /v1/domains/{uuid}/policy"),
)
