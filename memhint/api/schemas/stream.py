"""The stream of changes."""

from memhint.api.schemas.common import query
from memhint.api.schemas.records import Schema

ID: Schema = {
    "type": "string",
    "pattern": "^[0-9]{1,19}(-[0-9]{1,18}-[0-9]{1,18}(-[0-9]{1,18})?)?$",
    "description": "as Last-Event-ID, for those who cannot send a header",
}
FOLLOW_QUERY = query({"since": ID})
