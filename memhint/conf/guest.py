"""[guest]: how often and how patiently guests are asked."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "guest"

OPTS = (
    cfg.BoolOpt(
        "enabled",
        default=True,
        help="Whether guests are read through the guest agent. Reading changes nothing inside them.",
    ),
    cfg.IntOpt("in_flight", default=4, min=1, max=64, help="Guests that are asked at the same time."),
    cfg.IntOpt("call_timeout", default=2, min=1, max=60, help="Seconds that one call to a guest agent may take."),
    cfg.FloatOpt(
        "conversation_timeout",
        default=10.0,
        min=1,
        max=300,
        help="Seconds that all calls of one look at one guest may take together. Not below call_timeout.",
    ),
    cfg.FloatOpt("interval", default=10.0, min=0.2, help="Seconds between two looks at one guest."),
    cfg.FloatOpt(
        "backoff_base",
        default=5.0,
        min=0.1,
        help="Seconds for which a guest that did not answer is left alone; doubled each further time.",
    ),
    cfg.FloatOpt(
        "backoff_max",
        default=300.0,
        min=0.1,
        help="Seconds for which it is left alone at most. Not below backoff_base.",
    ),
    cfg.FloatOpt(
        "max_age",
        default=60.0,
        min=1,
        help="Seconds after which what a guest said is shown no longer. Not below interval.",
    ),
)
