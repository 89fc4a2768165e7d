"""Requests that a guest give page cache back, and what became of them."""

from __future__ import annotations

import uuid
from typing import Any

from memhint.api.errors import Problem, bad_request, not_found
from memhint.api.handlers import pages
from memhint.api.handlers.domains import find_uuid, own_project
from memhint.api.policies import reclaims as rules
from memhint.api.route import ApiResponse, Call
from memhint.controller.dispatch import Delivery, NoSuchDomain, NoSuchReclaim
from memhint.objects.codec import to_plain
from memhint.objects.reclaim import (
    PSI_LIMIT,
    TIME_TO_LIVE,
    TIMEOUT,
    ReclaimError,
    ReclaimRequest,
    ReclaimState,
)
from memhint.store.errors import MarkerError
from memhint.store.reclaims import HostReclaim


def create(call: Call) -> ApiResponse:
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
            hold=float(body.get("hold", 0)),
        ).check()
    except ReclaimError as error:
        raise bad_request("reclaim.invalid", str(error)) from None
    try:
        queued, delivery = call.parts.dispatch.reclaim(request)
    except NoSuchDomain:
        raise not_found("domain", "no host has this VM now") from None
    where = f"{call.request.root_path}/v1/reclaims/{request.id}"
    return ApiResponse(_told(queued, delivery), headers={"Location": where})


def index(call: Call) -> ApiResponse:
    """Those to VMs that the caller may see, newest first."""
    query, state, marker = call.query, call.query.get("state"), call.query.get("marker")
    found = call.parts.store.reclaims.page(
        limit=pages.limit_of(call),
        before=None if marker is None else _parse(marker),
        uuid=query.get("domain"),
        host=query.get("host"),
        state=None if state is None else ReclaimState(state),
        since=query.get("since"),
        project=own_project(call),
    )
    following = None if found.last is None else f"{found.last[0]!r},{found.last[1]}"
    return pages.page(call, "reclaims", map(item_of, found.items), following)


def show(call: Call) -> ApiResponse:
    """One of them."""
    return ApiResponse({"reclaim": item_of(_find(call, rules.SHOW))})


def delete(call: Call) -> ApiResponse:
    """Interrupt it; what the guest gave back until then stays given."""
    found = _find(call, rules.DELETE)
    if found.reclaim.state.ended:
        raise Problem(409, "reclaim.ended", f"it has ended already: {found.reclaim.verdict}"[:500])
    why = f"taken back by api {call.who.name}"
    try:
        return ApiResponse(_told(*call.parts.dispatch.interrupt(found.reclaim.request.id, why)))
    except NoSuchReclaim:
        raise not_found("reclaim", "it is no longer kept") from None


def item_of(one: HostReclaim) -> dict[str, Any]:
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
        "hold": request.hold,
        "held": to_plain(found.held),
        "interrupted": one.interrupted,
        "returned": found.returned,
        "stop": None if found.stop is None else str(found.stop),
        "verdict": to_plain(found.verdict),
    }


def _told(one: HostReclaim, delivery: Delivery) -> dict[str, Any]:
    return {"reclaim": item_of(one), "delivery": to_plain(delivery)}


def _find(call: Call, rule: str) -> HostReclaim:
    found = call.parts.store.reclaims.find(call.path["id"])
    if found is not None:
        line = call.parts.store.domains.one(found.reclaim.request.uuid)
        if call.allowed(rule, line.project if line else None):
            return found
    raise not_found("reclaim", "there is no such request that you may see: GET /v1/reclaims lists those there are")


def _parse(marker: str) -> tuple[float, str]:
    at, _, request = marker.partition(",")
    try:
        found = float(at)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e12 or not 0 < len(request) <= 36:
        raise MarkerError("this marker was not given by this list")
    return found, request
