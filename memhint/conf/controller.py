"""[controller]: the process that keeps what all agents report."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "controller"

OPTS = (
    cfg.FloatOpt("sweep", default=5.0, min=0.1, help="Seconds between two looks for hosts that have gone silent."),
    cfg.IntOpt(
        "batch", default=100, min=1, max=5000, help="Messages, at most, that go into the store in one transaction."
    ),
    cfg.FloatOpt(
        "command_deadline",
        default=5.0,
        min=0.5,
        help="Seconds in which an agent must take up a command. What needs it is sent again while a report shows so.",
    ),
    cfg.FloatOpt(
        "resend", default=30.0, min=1, help="Seconds, at least, between two times that a host is sent what it lacks."
    ),
    cfg.FloatOpt(
        "growth_interval",
        default=10.0,
        min=0,
        help="Seconds between two hosts whose VMs' history the controllers look at, to learn how VMs grow ([planner] "
        "growth_floor). 0: nothing is learnt, and [store] domain_hourly_days may be less than 9.",
    ),
    cfg.FloatOpt(
        "promise_interval",
        default=10.0,
        min=0,
        help="Seconds between two hosts of which the controllers judge what was promised in each hour by what came. 0: "
        "nothing is judged.",
    ),
    cfg.FloatOpt(
        "forget_days",
        default=90.0,
        min=0.01,
        help="Days after which a silent host is forgotten, and the policy of a VM that no host has any more.",
    ),
)
