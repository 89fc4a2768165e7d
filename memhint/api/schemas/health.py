"""Whether it works."""

from memhint.api.schemas.records import record

SHOW = record(
    {
        "status": {"type": "string", "enum": ["ok", "failing"]},
        "store": {"type": "string", "enum": ["ok", "away"]},
        "bus": {"type": "string", "enum": ["ok", "off", "away"]},
    }
)
