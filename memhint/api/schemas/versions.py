"""Which versions there are."""

from memhint.api.schemas.records import record, schema_of

_TEXT = schema_of(str)
_LINK = record({"rel": _TEXT, "href": _TEXT})
SHOW = record(
    {
        "versions": {
            "type": "array",
            "items": record(
                {
                    "id": _TEXT,
                    "status": _TEXT,
                    "min_version": _TEXT,
                    "max_version": _TEXT,
                    "links": {"type": "array", "items": _LINK},
                }
            ),
        }
    }
)
