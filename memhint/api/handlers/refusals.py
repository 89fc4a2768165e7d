"""What levers refused lately, newest first."""

from __future__ import annotations

from memhint.api.handlers import pages
from memhint.api.handlers.events import item_of
from memhint.api.route import ApiResponse, Call
from memhint.store.log import LEVER, REFUSED, LogFilter


def index(call: Call) -> ApiResponse:
    """Pulls that a rule, a guest or another manager stood against."""
    query = call.query
    which = LogFilter(query.get("host"), query.get("domain"), LEVER, query.get("since"), answers=REFUSED)
    found = call.parts.log.page(which, pages.limit_of(call), query.get("marker"))
    rows = ({name: value for name, value in item_of(one).items() if name != "kind"} for one in found.items)
    return pages.page(call, "refusals", rows, found.next)
