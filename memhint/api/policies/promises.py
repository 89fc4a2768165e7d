"""Who may see how the fleet kept its promises."""

from memhint.api.policies.base import WHOLE, documented

SHOW = "memhint:promises:show"

RULES = (documented(SHOW, WHOLE, "Show in how many hours the hosts' promises held.", "GET /v1/promises"),)
