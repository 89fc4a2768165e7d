"""Who may see hosts."""

from memhint.api.policies.base import WHOLE, documented

LIST = "memhint:hosts:list"
SHOW = "memhint:hosts:show"
HISTORY = "memhint:hosts:history"

RULES = (
    documented(LIST, WHOLE, "List hosts and what may be promised on them.", "GET /v1/hosts"),
    documented(SHOW, WHOLE, "Show one host with every term of its capacity.", "GET /v1/hosts/{name}"),
    documented(HISTORY, WHOLE, "Show a host's key numbers over time.", "GET /v1/hosts/{name}/history"),
)
