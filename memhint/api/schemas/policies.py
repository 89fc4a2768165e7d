"""What holds for a VM, who said so, and what a change would do."""

from __future__ import annotations

from memhint.api.schemas.common import DELIVERY, query
from memhint.api.schemas.levers import LEVER
from memhint.api.schemas.records import Schema, nullable, record, schema_of
from memhint.objects.policy import KEYS, Origin

_VALUE = {"type": ["string", "null"], "description": "null: not known before the host has told"}
_SETTING = record({"value": _VALUE, "origin": nullable(schema_of(Origin))})
POLICY: Schema = {
    "type": "object",
    "propertyNames": {"enum": list(KEYS)},
    "additionalProperties": _SETTING,
}
_CHANGE = record({"key": {"type": "string", "enum": list(KEYS)}, "before": _SETTING, "after": _SETTING})

SHOW: Schema = record({"policy": POLICY})
UPDATE_QUERY = query({"dry_run": {"type": "boolean", "default": False}})
UPDATE_BODY: Schema = {
    "type": "object",
    "required": ["policy"],
    "additionalProperties": False,
    "properties": {
        "policy": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                key.name: {
                    "type": ["string", "null"],
                    "maxLength": 64,
                    "description": f"{key.help}. null takes it back",
                }
                for key in KEYS.values()
            },
        }
    },
}
UPDATE: Schema = {
    "type": "object",
    "required": ["policy", "changes"],
    "additionalProperties": False,
    "properties": {
        "policy": POLICY,
        "changes": {"type": "array", "items": _CHANGE},
        "delivery": DELIVERY,
        "levers": {
            "type": "array",
            "items": LEVER,
            "description": "with dry_run: what they would do, as far as is known",
        },
    },
}
