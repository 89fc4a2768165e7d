"""How the fleet kept its promises, as the controllers judged them hour by hour."""

from __future__ import annotations

from memhint.api.handlers.history import DAY
from memhint.api.route import ApiResponse, Call
from memhint.objects.codec import to_plain
from memhint.objects.promise import fleet_promises

WEEK = 7 * DAY


def show(call: Call) -> ApiResponse:
    """All hosts together, and each whose promise did not hold in some hour."""
    since = call.query.get("since", call.parts.clock() - WEEK)
    found = fleet_promises(call.parts.store.promises.since(since), since)
    return ApiResponse({"promises": to_plain(found)})
