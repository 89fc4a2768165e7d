"""What happened, newest first."""

from __future__ import annotations

from typing import Any

from memhint.api.handlers import pages
from memhint.api.handlers.domains import own_project
from memhint.api.route import ApiResponse, Call
from memhint.objects.codec import to_plain
from memhint.store.log import LogEntry, LogFilter


def index(call: Call) -> ApiResponse:
    """What levers did and what the controllers saw; of other projects' VMs nothing is told."""
    query = call.query
    which = LogFilter(query.get("host"), query.get("domain"), query.get("kind"), query.get("since"), own_project(call))
    found = call.parts.log.page(which, pages.limit_of(call), query.get("marker"))
    return pages.page(call, "events", map(item_of, found.items), found.next)


def item_of(one: LogEntry) -> dict[str, Any]:
    """One of them."""
    return to_plain(one)  # type: ignore[no-any-return]
