"""The stream of changes."""

from memhint.api.schemas.common import TOKEN, query

FOLLOW_QUERY = query({"since": {**TOKEN, "description": "as Last-Event-ID, for those who cannot send a header"}})
