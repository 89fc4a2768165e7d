"""Who may ask where VMs would fit."""

from memhint.api.policies.base import WHOLE, documented

CREATE = "memhint:plans:create"

RULES = (documented(CREATE, WHOLE, "See where VMs would fit. Nothing is changed.", "POST /v1/plans"),)
