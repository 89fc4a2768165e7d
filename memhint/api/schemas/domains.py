"""VMs, in a line and in full."""

from __future__ import annotations

from memhint.api.schemas.common import NAME, history_query, one, page, page_query
from memhint.api.schemas.levers import GAP, LEVER
from memhint.api.schemas.policies import POLICY
from memhint.api.schemas.records import extended, nullable, record, schema_of, words_of
from memhint.objects.active import ActiveMemory
from memhint.objects.domain import DomainState
from memhint.objects.exclusion import Excluded
from memhint.objects.guest import GuestKernel
from memhint.objects.lever import LeverName
from memhint.objects.merging import Merging
from memhint.objects.report import Reclaimable
from memhint.objects.summary import DOMAIN_SORT_KEYS, DomainSummary
from memhint.store.domain_history import DomainPoint

_SUMMARY = schema_of(DomainSummary)["properties"]
DOMAIN = record({"class" if name == "qos" else name: schema for name, schema in _SUMMARY.items()})
_BY_LEVER = {name: schema for name, schema in schema_of(Reclaimable)["properties"].items() if name != "lever"}
DOMAIN_IN_FULL = extended(
    DOMAIN,
    {
        "levers": {"type": "array", "items": LEVER},
        "policy": POLICY,
        "excluded": {"type": "array", "items": schema_of(Excluded)},
        "gaps": {"type": "array", "items": GAP},
        "reclaimable_by": {
            "type": "object",
            "propertyNames": {"enum": words_of(LeverName)},
            "additionalProperties": record(_BY_LEVER),
        },
        "huge_coverage": schema_of(float | None),
        "huge_mapped": schema_of(float | None),
        "remote": schema_of(float | None),
        "on_fast": schema_of(float | None),
        "active": nullable(schema_of(ActiveMemory)),
        "merging": nullable(schema_of(Merging)),
        "guest_kernel": nullable(schema_of(GuestKernel)),
        "minimum": schema_of(int | None),
    },
)

LIST_QUERY = page_query(
    DOMAIN["properties"],
    {
        "host": {**NAME, "description": "on this host"},
        "project": {**NAME, "description": "of this project"},
        "name": {**NAME, "description": "a part of the name"},
        "state": {"type": "string", "enum": [str(word) for word in DomainState]},
    },
    DOMAIN_SORT_KEYS,
    changed=True,
)
LIST = page("domains", DOMAIN, changed=True)
SHOW = one("domain", DOMAIN_IN_FULL)

POINT = schema_of(DomainPoint)
HISTORY_QUERY = history_query(least_step=1)
HISTORY = record({"points": {"type": "array", "items": POINT}})
