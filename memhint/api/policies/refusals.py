"""Who may see what was refused."""

from memhint.api.policies.base import WHOLE, documented

LIST = "memhint:refusals:list"

RULES = (documented(LIST, WHOLE, "List what levers refused lately, and why.", "GET /v1/refusals"),)
