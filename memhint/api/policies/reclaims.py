"""Who may have guests give memory back."""

from memhint.api.policies.base import CHANGE, OWN, documented

CREATE = "memhint:reclaims:create"
LIST = "memhint:reclaims:list"
SHOW = "memhint:reclaims:show"
DELETE = "memhint:reclaims:delete"

RULES = (
    documented(CREATE, CHANGE, "Ask a guest to give page cache back, also as a dry run.", "POST /v1/reclaims"),
    documented(
        LIST,
        OWN,
        "List such requests. Who does not see the whole fleet is given those of the own project.",
        "GET /v1/reclaims",
    ),
    documented(SHOW, OWN, "Show one request and what became of it.", "GET /v1/reclaims/{id}"),
    documented(DELETE, CHANGE, "Interrupt a request.", "DELETE /v1/reclaims/{id}"),
)
