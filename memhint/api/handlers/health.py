"""Whether it works: for load balancers and people."""

from __future__ import annotations

import logging

from memhint.api.route import ApiResponse, Call
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


def show(call: Call) -> ApiResponse:
    """200 where the store answers, else 503. A broker that is away does not matter."""
    try:
        call.parts.store.hosts_view.token()
        store = "ok"
    except StoreError as error:
        LOG.error("the store is away: %s", error)
        call.parts.requests.store_failed()
        store = "away"
    works = store == "ok"
    body = {"status": "ok" if works else "failing", "store": store, "bus": call.parts.bus()}
    return ApiResponse(body, 200 if works else 503, {"Cache-Control": "no-store"})
