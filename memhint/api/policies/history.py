"""Who may see the fleet's history."""

from memhint.api.policies.base import WHOLE, documented

SHOW = "memhint:history:show"

RULES = (documented(SHOW, WHOLE, "Show the fleet's key numbers over time.", "GET /v1/history"),)
