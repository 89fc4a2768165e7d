"""Who may follow the fleet as it changes."""

from memhint.api.policies.base import WHOLE, documented

FOLLOW = "memhint:stream:follow"

RULES = (documented(FOLLOW, WHOLE, "Be told of changed hosts and of events as they come.", "GET /v1/stream"),)
