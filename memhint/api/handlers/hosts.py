"""Hosts: what may be promised on each, and every term behind it."""

from __future__ import annotations

from typing import Any

from memhint.api.errors import Problem, not_found
from memhint.api.handlers import pages
from memhint.api.handlers.history import DAY, thinned
from memhint.api.route import ApiResponse, Call
from memhint.objects.codec import to_plain
from memhint.objects.huge import huge_pages
from memhint.objects.lever import LeverState
from memhint.objects.report import Report
from memhint.objects.summary import HostSummary, lacking
from memhint.planner.tier_sizing import tier_gain, tier_sizing


def index(call: Call) -> ApiResponse:
    """Those there are, or what changed since an earlier answer."""
    view, since = call.parts.store.hosts_view, call.query.get("changed_since")
    if since is not None:
        pages.alone(call, "limit", "marker", "sort", "tier")
        changes = view.changed(since)
        return ApiResponse(
            {
                "hosts": pages.narrowed(call, map(item_of, changes.items)),
                "deleted": list(changes.deleted),
                "changed": changes.token,
            }
        )
    token = view.token()  # before the list: what changes meanwhile is told again rather than not at all
    sort, descending = pages.order_of(call)
    found = view.page(sort, descending=descending, limit=pages.limit_of(call), marker=call.query.get("marker"))
    items = (item_of(one, call.query.get("tier")) for one in found.items)
    return pages.page(call, "hosts", items, found.next, changed=token)


def show(call: Call) -> ApiResponse:
    """One of them, with all that its newest report says."""
    found = _find(call)
    return ApiResponse(
        {
            "host": {
                **item_of(found, call.query.get("tier")),
                **_detail(call, call.parts.store.reports.newest(found.name)),
            }
        }
    )


def history(call: Call) -> ApiResponse:
    """Its key numbers over time, oldest first."""
    found = _find(call)
    since = call.query.get("since", call.parts.clock() - DAY)
    points = call.parts.store.history.of(found.name, since, call.query.get("until"))
    return ApiResponse({"points": to_plain(thinned(points, call.query.get("step")))})


def item_of(one: HostSummary, tier: int | None = None) -> dict[str, Any]:
    """A host's line.

    :param tier: bytes of slower memory to tell of; None: as much as the host has for VMs
    """
    gain = None if one.load is None else tier_gain(one.load, one.load.dram if tier is None else tier)
    return {**to_plain(one), "tier_gain": to_plain(gain)}


def lever(state: LeverState) -> dict[str, Any]:
    """A lever's state, its verdict beside it."""
    return {
        "lever": str(state.lever),
        "subject": state.subject,
        "desired": state.desired,
        "observed": str(state.observed),
        **to_plain(state.verdict),
    }


def _find(call: Call) -> HostSummary:
    found = call.parts.store.hosts_view.one(call.path["name"])
    if found is None:
        raise not_found("host", "no agent of this name has reported: GET /v1/hosts lists those that have")
    return found


def _detail(call: Call, report: Report | None) -> dict[str, Any]:
    if report is None:
        raise Problem(404, "host.not_found", "its report is no longer there: ask again")
    now, capacity = call.parts.clock(), report.plan.capacity
    sizing = tier_sizing(
        [one.observation for one in report.domains], capacity.pool - capacity.reserve, call.query.get("tier")
    )
    return {
        "capacity": to_plain(capacity),
        "levers": [lever(one) for one in report.levers],
        "ladder": [
            {"rung": str(one.rung), "since": min(now, report.at) - one.age, "detail": one.why}
            for one in report.plan.rungs
        ],
        "actions": to_plain(report.plan.actions),
        "gaps": to_plain((*report.gaps, *report.observation.gaps)),
        "domains_with_gaps": lacking(report.domains),
        "cost": to_plain(report.cost),
        "huge": to_plain(huge_pages(report)),
        "tier": to_plain(sizing) if sizing else None,
        "promise": to_plain(call.parts.store.promises.of(report.host)),
    }
