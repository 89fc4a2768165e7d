"""[store]: where reports, policies and marks are kept."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "store"

OPTS = (
    cfg.StrOpt(
        "url",
        default="sqlite:////var/lib/memhint/memhint.db",
        secret=True,
        regex=r"^[a-z0-9_+]+://.*$",
        help="URL of the database, as SQLAlchemy has it.",
    ),
    cfg.FloatOpt(
        "history_hours",
        default=24.0,
        min=0.1,
        help="Hours for which the host's key numbers and the record of actions are kept.",
    ),
)
