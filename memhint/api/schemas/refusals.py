"""What levers refused lately, and why."""

from __future__ import annotations

from memhint.api.schemas.common import NAME, TIME, UUID, page, page_query
from memhint.api.schemas.records import record, schema_of
from memhint.objects.lever import LeverName
from memhint.objects.verdict import Answer, Reason

_TEXT = schema_of(str)
REFUSAL = record(
    {
        "at": schema_of(float),
        "host": _TEXT,
        "domain": schema_of(str | None),
        "domain_name": schema_of(str | None),
        "lever": schema_of(LeverName),
        "desired": _TEXT,
        "answer": schema_of(Answer),
        "reason": schema_of(Reason),
        "detail": _TEXT,
    }
)
LIST_QUERY = page_query(REFUSAL["properties"], {"host": NAME, "domain": UUID, "since": TIME})
LIST = page("refusals", REFUSAL)
