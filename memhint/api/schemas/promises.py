"""How the fleet kept its promises."""

from __future__ import annotations

from memhint.api.schemas.common import TIME, one, query
from memhint.api.schemas.records import schema_of
from memhint.objects.promise import FleetPromises

SHOW_QUERY = query({"since": {**TIME, "description": "unix seconds; a week ago if not said"}})
SHOW = one("promises", schema_of(FleetPromises))
