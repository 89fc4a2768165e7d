"""Where VMs would fit: a dry run over the newest lines of the hosts."""

from __future__ import annotations

from memhint.api.route import ApiResponse, Call
from memhint.objects.codec import to_plain
from memhint.planner.placement import place


def create(call: Call) -> ApiResponse:
    """Place so many VMs of one size, on paper."""
    found = place(
        call.parts.store.hosts_view.all(),
        memory=int(call.body["memory"]),
        count=int(call.body.get("count", 1)),
        overhead=call.parts.overhead,
        wanted=call.body.get("hosts"),
    )
    return ApiResponse({"plan": to_plain(found)})
