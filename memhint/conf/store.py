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
        help="URL of the database, as SQLAlchemy has it: sqlite:////absolute/path.db, postgresql+psycopg://… or "
        "mariadb+pymysql://….",
    ),
    cfg.FloatOpt(
        "history_hours",
        default=24.0,
        min=0.1,
        help="Hours for which the hosts' key numbers of every cycle and the record of actions are kept.",
    ),
    cfg.FloatOpt(
        "five_minute_days",
        default=7.0,
        min=0,
        help="Days for which the worst of each five minutes of the key numbers stays, once single cycles are gone.",
    ),
    cfg.FloatOpt(
        "hourly_days",
        default=365.0,
        min=0,
        help="Days for which the worst of each hour of the key numbers stays, once the five minutes are gone.",
    ),
    cfg.FloatOpt(
        "domain_step",
        default=60.0,
        min=1,
        help="Seconds between two points of a VM's history. At 100,000 VMs 60 is 1,700 rows a second.",
    ),
    cfg.FloatOpt("domain_hours", default=6.0, min=0.1, help="Hours for which these points are kept."),
    cfg.FloatOpt(
        "domain_hourly_days",
        default=30.0,
        min=0,
        help="Days for which the worst of each hour of a VM stays, once its points are gone. Controllers that learn "
        "from them how VMs grow ([controller] growth_interval) need 9 or more.",
    ),
)
