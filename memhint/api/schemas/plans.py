"""Where VMs would fit."""

from __future__ import annotations

from memhint.api.schemas.common import BIGGEST, NAME, one
from memhint.api.schemas.records import Schema, nullable, record, schema_of
from memhint.objects.placement import Unfit
from memhint.objects.units import MIB

COUNT_MOST = 100_000
CREATE_BODY: Schema = {
    "type": "object",
    "required": ["memory"],
    "additionalProperties": False,
    "properties": {
        "memory": {"type": "integer", "minimum": MIB, "maximum": BIGGEST >> 10, "description": "bytes of one VM"},
        "count": {"type": "integer", "minimum": 1, "maximum": COUNT_MOST, "default": 1},
        "hosts": {
            "type": "array",
            "items": NAME,
            "minItems": 1,
            "maxItems": 1000,
            "uniqueItems": True,
            "description": "only these; absent: every host",
        },
    },
}
_SIZE = schema_of(int)
_REFUSAL = nullable(record({"reason": schema_of(Unfit), "detail": schema_of(str)}))
_HOST = record(
    {
        "name": schema_of(str),
        "slots": _SIZE,
        "nominal_slots": _SIZE,
        "placed": _SIZE,
        "headroom": {"type": ["integer", "null"]},
        "refusal": _REFUSAL,
    }
)
CREATE = one("plan", record({"placed": _SIZE, "nominal": _SIZE, "hosts": {"type": "array", "items": _HOST}}))
