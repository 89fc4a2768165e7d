"""Who may read metrics."""

from memhint.api.policies.base import WHOLE, documented

SHOW = "memhint:metrics:show"

RULES = (documented(SHOW, WHOLE, "Read the metrics of the fleet as Prometheus has them.", "GET /metrics"),)
