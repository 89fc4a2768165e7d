"""What happened: pulls of levers, and what the controllers saw of hosts."""

from __future__ import annotations

from memhint.api.schemas.common import NAME, TIME, UUID, page, page_query
from memhint.api.schemas.records import Schema, record, schema_of, words_of
from memhint.objects.lever import LeverName
from memhint.objects.verdict import Answer, Reason
from memhint.store.fleet import HostEventKind

LEVER_EVENT = "lever"
KINDS = (LEVER_EVENT, *(str(kind) for kind in HostEventKind))
_TEXT = schema_of(str | None)


def _or_null(words: type[Answer] | type[Reason] | type[LeverName]) -> Schema:
    return {"type": ["string", "null"], "enum": [*words_of(words), None]}


EVENT = record(
    {
        "at": schema_of(float),
        "kind": {"type": "string", "enum": list(KINDS)},
        "host": schema_of(str),
        "domain": _TEXT,
        "domain_name": _TEXT,
        "lever": _or_null(LeverName),
        "desired": _TEXT,
        "answer": _or_null(Answer),
        "reason": _or_null(Reason),
        "detail": schema_of(str),
    }
)
LIST_QUERY = page_query(
    EVENT["properties"],
    {"host": NAME, "domain": UUID, "kind": {"type": "string", "enum": list(KINDS)}, "since": TIME},
)
LIST = page("events", EVENT)
