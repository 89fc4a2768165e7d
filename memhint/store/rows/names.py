"""Names of columns that tables, rows and statements have in common."""

from __future__ import annotations

HOST_SIZES = (
    "pool",
    "reserve",
    "assigned",
    "footprint",
    "resident",
    "available",
    "swap_used",
    "want",
    "spare",
    "headroom",
    "nominal_headroom",
    "slot",
    "slots",
    "nominal_slots",
)
HOST_SUMS = (
    "reported",
    "unreported",
    "returned",
    "reclaimable_reporting",
    "reclaimable_cache",
    "reclaimable_dedup",
)
HOST_LOAD = ("load_used", "load_active", "load_vms", "load_read")
DOMAIN_SIZES = (
    "resident",
    "footprint",
    "demand",
    "free",
    "reported",
    "unreported",
    "shared",
    "swap",
    "returned",
    "reclaimable",
)
DOMAIN_HISTORY_SIZES = ("resident", "footprint", "demand", "free", "reported", "unreported", "shared", "swap")
