"""[reporting]: the free page reporting lever."""

from __future__ import annotations

from oslo_config import cfg

GROUP = "reporting"

OPTS = (
    cfg.IntOpt(
        "order",
        default=9,
        min=0,
        max=10,
        help="The smallest free block that a guest reports when memhint switches reporting on, as an order: "
        "2^order pages of 4 KiB, 9 being 2 MiB. A finer order costs the guest run time.",
    ),
)
