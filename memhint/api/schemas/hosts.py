"""Hosts, in a line and in full."""

from __future__ import annotations

from memhint.api.schemas.common import BIGGEST, history_query, one, page, page_query, query
from memhint.api.schemas.history import HOST_POINT
from memhint.api.schemas.levers import ACTION, GAP, LEVER
from memhint.api.schemas.records import extended, nullable, record, schema_of
from memhint.objects.huge import HugePages
from memhint.objects.plan import Capacity
from memhint.objects.promise import KeptPromises
from memhint.objects.report import Cost
from memhint.objects.summary import HOST_SORT_KEYS, HostSummary
from memhint.objects.tier_sizing import TierGain, TierSizing

_GAPS = {"type": "integer", "description": "of the host and its VMs, without what it or a guest does not have"}
HOST = extended(schema_of(HostSummary), {"gaps": _GAPS, "tier_gain": nullable(schema_of(TierGain))})
_TEXT = schema_of(str)
_RUNG = record({"rung": _TEXT, "since": schema_of(float), "detail": _TEXT})
HOST_IN_FULL = extended(
    HOST,
    {
        "capacity": nullable(schema_of(Capacity)),
        "levers": {"type": "array", "items": LEVER},
        "ladder": {"type": "array", "items": _RUNG},
        "actions": {"type": "array", "items": ACTION},
        "gaps": {"type": "array", "items": GAP, "description": "of the host itself"},
        "domains_with_gaps": schema_of(int),
        "cost": nullable(schema_of(Cost)),
        "huge": schema_of(HugePages),
        "tier": nullable(schema_of(TierSizing)),
        "promise": nullable(schema_of(KeptPromises)),
    },
)

_TIER = {
    "type": "integer",
    "minimum": 1,
    "maximum": BIGGEST,
    "description": "bytes of slower memory of which is told what they would give; else as many as the host has for VMs",
}
LIST_QUERY = page_query(HOST["properties"], {"tier": _TIER}, HOST_SORT_KEYS, changed=True)
SHOW_QUERY = query({"tier": _TIER})
LIST = page("hosts", HOST, changed=True)
SHOW = one("host", HOST_IN_FULL)
HISTORY_QUERY = history_query(least_step=1)
HISTORY = record({"points": {"type": "array", "items": HOST_POINT}})
