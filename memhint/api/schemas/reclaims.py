"""Requests that a guest give page cache back."""

from __future__ import annotations

from memhint.api.schemas.common import BIGGEST, DELIVERY, NAME, TIME, UUID, one, page, page_query
from memhint.api.schemas.levers import VERDICT
from memhint.api.schemas.records import Schema, nullable, record, schema_of
from memhint.objects.reclaim import HOLD_MAX, PSI_LIMIT, SMALLEST, TIMEOUT, Hold, ReclaimState, Stop

_SIZE = schema_of(int | None)
_TEXT = schema_of(str)
_NUMBER = schema_of(float)
RECLAIM: Schema = record(
    {
        "id": _TEXT,
        "domain": _TEXT,
        "host": _TEXT,
        "state": schema_of(ReclaimState),
        "bytes": _SIZE,
        "reason": _TEXT,
        "by": _TEXT,
        "at": _NUMBER,
        "expires": _NUMBER,
        "dry_run": schema_of(bool),
        "psi_limit": _NUMBER,
        "timeout": _NUMBER,
        "hold": _NUMBER,
        "held": nullable(schema_of(Hold)),
        "interrupted": schema_of(str | None),
        "returned": _SIZE,
        "stop": nullable(schema_of(Stop)),
        "verdict": VERDICT,
    }
)
CREATE_BODY: Schema = {
    "type": "object",
    "required": ["domain", "reason"],
    "additionalProperties": False,
    "properties": {
        "domain": UUID,
        "bytes": {
            "type": ["integer", "null"],
            "minimum": SMALLEST,
            "maximum": BIGGEST,
            "default": None,
            "description": "at most; null: all page cache that was not used recently",
        },
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
            "description": "why, for the record",
        },
        "psi_limit": {"type": "number", "minimum": 0, "maximum": 100, "default": PSI_LIMIT},
        "timeout": {"type": "number", "minimum": 1, "maximum": 3600, "default": TIMEOUT},
        "hold": {
            "type": "number",
            "minimum": 0,
            "maximum": HOLD_MAX,
            "default": 0,
            "description": "seconds after its end for which page cache that the guest fills again, without using it, "
            "is reclaimed again",
        },
        "dry_run": {"type": "boolean", "default": False},
    },
}
LIST_QUERY = page_query(
    RECLAIM["properties"],
    {
        "domain": UUID,
        "host": NAME,
        "state": {"type": "string", "enum": [str(word) for word in ReclaimState]},
        "since": TIME,
    },
)
LIST = page("reclaims", RECLAIM)
SHOW = one("reclaim", RECLAIM)
TOLD: Schema = record({"reclaim": RECLAIM, "delivery": DELIVERY})
