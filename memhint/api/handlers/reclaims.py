"""Requests that a guest give page cache back, and what became of them."""

from __future__ import annotations

import uuid
from typing import Any

from memhint.api.errors import Problem, bad_request, not_found
from memhint.api.handlers import pages
from memhint.api.handlers.domains import find_uuid, own_project
from memhint.api.policies import reclaims as rules
from memhint.api.route import Answer, Call
from memhint.objects.reclaim import (
    PSI_LIMIT,
    TIME_TO_LIVE,
    TIMEOUT,
    ReclaimError,
    ReclaimRequest,
    ReclaimState,
)
from memhint.store.codec import to_plain
from memhint.store.reclaim_log import Placed, ReclaimFilter


def create(call: Call) -> Answer:
    """Queue one. What becomes of it is seen by its id."""
    body = call.body
    line = find_uuid(call, body["domain"], rules.CREATE)
    now, size = call.parts.clock(), body.get("bytes")
    try:
        request = ReclaimRequest(
            id=str(uuid.uuid4()),
            uuid=line.uuid,
            size=None if size is None else int(size),
            psi_limit=float(body.get("psi_limit", PSI_LIMIT)),
            timeout=float(body.get("timeout", TIMEOUT)),
            reason=body["reason"],
            by=f"api {call.who.name}"[:64],
            at=now,
            expires=now + TIME_TO_LIVE,
            dry_run=body.get("dry_run", False),
        ).check()
    except ReclaimError as error:
        raise bad_request("reclaim.invalid", str(error)) from None
    queued = call.parts.dispatch.reclaim(request, line.host)
    where = f"{call.request.root_path}/v1/reclaims/{request.id}"
    return Answer({"reclaim": shown(Placed(line.host, queued))}, headers={"Location": where})


def index(call: Call) -> Answer:
    """Those to VMs that the caller may see, newest first."""
    query, state = call.query, call.query.get("state")
    which = ReclaimFilter(
        query.get("domain"),
        query.get("host"),
        None if state is None else ReclaimState(state),
        query.get("since"),
        own_project(call),
    )
    found, marker = call.parts.reclaims.page(which, pages.limit_of(call), query.get("marker"))
    return pages.page(call, "reclaims", map(shown, found), marker)


def show(call: Call) -> Answer:
    """One of them."""
    return Answer({"reclaim": shown(_find(call, rules.SHOW))})


def delete(call: Call) -> Answer:
    """Interrupt it; what the guest gave back until then stays given."""
    found = _find(call, rules.DELETE)
    if found.reclaim.state.ended:
        raise Problem(409, "reclaim.ended", f"it has ended already: {found.reclaim.verdict}"[:500])
    call.parts.dispatch.interrupt(found.reclaim.request.id)
    return Answer({"reclaim": shown(_find(call, rules.DELETE))})


def shown(one: Placed) -> dict[str, Any]:
    """A request for machines."""
    found, request = one.reclaim, one.reclaim.request
    return {
        "id": request.id,
        "domain": request.uuid,
        "host": one.host,
        "state": str(found.state),
        "bytes": request.size,
        "reason": request.reason,
        "by": request.by,
        "at": request.at,
        "expires": request.expires,
        "dry_run": request.dry_run,
        "psi_limit": request.psi_limit,
        "timeout": request.timeout,
        "hold": None,
        "returned": found.returned,
        "stop": None if found.stop is None else str(found.stop),
        "verdict": to_plain(found.verdict),
    }


def _find(call: Call, rule: str) -> Placed:
    found = call.parts.reclaims.one(call.path["id"])
    if found is not None:
        line = call.parts.store.domains.one(found.reclaim.request.uuid)
        if call.allowed(rule, line.project if line else None):
            return found
    raise not_found("reclaim", "there is no such request that you may see: GET /v1/reclaims lists those there are")
