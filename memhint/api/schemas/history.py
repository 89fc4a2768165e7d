"""Key numbers over time: of a host, of the fleet, of a VM."""

from __future__ import annotations

from memhint.api.schemas.common import history_query
from memhint.api.schemas.records import record, schema_of
from memhint.objects.history import HistoryPoint

HOST_POINT = schema_of(HistoryPoint)
SHOW_QUERY = history_query(least_step=10)
SHOW = record({"points": {"type": "array", "items": HOST_POINT}})
