"""VMs: what each has, uses, and could give back."""

from __future__ import annotations

from typing import Any

from memhint.api.errors import Problem, bad_request, not_found
from memhint.api.handlers import pages
from memhint.api.handlers.history import DAY, thinned
from memhint.api.handlers.hosts import lever
from memhint.api.handlers.settings import settings_of
from memhint.api.policies import base
from memhint.api.policies import domains as rules
from memhint.api.route import ApiResponse, Call
from memhint.objects.codec import to_plain
from memhint.objects.domain import DomainState
from memhint.objects.gap import Gap, GapReason
from memhint.objects.report import POLICY, DomainReport, Report
from memhint.objects.summary import DomainSummary
from memhint.store.domains import DomainFilter


def index(call: Call) -> ApiResponse:
    """Those that the caller may see, or what changed of them since an earlier answer."""
    domains, since = call.parts.store.domains, call.query.get("changed_since")
    which = _filter(call)
    if since is not None:
        pages.alone(call, "limit", "marker", "sort")
        if not call.allowed(base.WHOLE):
            # What is gone has no owner any more: who does not see all must not learn what there was.
            raise bad_request(
                "changed_since.whole", "changed_since is for who sees the whole fleet: list the VMs again"
            )
        changes = domains.changed(since, which)
        items = pages.narrowed(call, map(item_of, changes.items))
        return ApiResponse({"domains": items, "deleted": list(changes.deleted), "changed": changes.token})
    token = domains.token()
    sort, descending = pages.order_of(call)
    found = domains.page(
        which, sort, descending=descending, limit=pages.limit_of(call), marker=call.query.get("marker")
    )
    return pages.page(call, "domains", map(item_of, found.items), found.next, changed=token)


def show(call: Call) -> ApiResponse:
    """One of them, with all that its host's newest report says."""
    line = find(call, rules.SHOW)
    report = call.parts.store.reports.newest(line.host)
    one = of_report(report, line.uuid)
    if report is None or one is None:
        raise Problem(404, "domain.not_found", "its host no longer reports it: ask again")
    return ApiResponse({"domain": {**item_of(line), **_detail(call, report, one)}})


def history(call: Call) -> ApiResponse:
    """Its key numbers over time, oldest first."""
    line = find(call, rules.HISTORY)
    since = call.query.get("since", call.parts.clock() - DAY)
    points = call.parts.store.domain_history.of(line.uuid, since, call.query.get("until"))
    return ApiResponse({"points": to_plain(thinned(points, call.query.get("step")))})


def find(call: Call, rule: str) -> DomainSummary:
    """The VM that the address names, where the rule lets the caller see it.

    :raises Problem: 404; what the caller may not see is not there
    """
    return find_uuid(call, call.path["uuid"], rule)


def find_uuid(call: Call, uuid: str, rule: str) -> DomainSummary:
    """The VM of this UUID.

    :raises Problem: 404
    """
    found = call.parts.store.domains.one(uuid.lower())
    if found is None or not call.allowed(rule, found.project):
        raise not_found("domain", "no host that you may see has this VM: GET /v1/domains lists those there are")
    return found


def own_project(call: Call) -> str | None:
    """The project that the caller's sight ends at; None where it sees all."""
    return None if call.allowed(base.WHOLE) else call.who.project_id or ""


def of_report(report: Report | None, uuid: str) -> DomainReport | None:
    """A VM's part of its host's report."""
    return next((one for one in report.domains if one.observation.uuid == uuid), None) if report else None


def item_of(one: DomainSummary) -> dict[str, Any]:
    """A VM's line."""
    return {"class" if name == "qos" else name: value for name, value in to_plain(one).items()}


def _filter(call: Call) -> DomainFilter:
    own, asked, state = own_project(call), call.query.get("project"), call.query.get("state")
    if own is not None and asked not in (None, own):
        raise Problem(403, "forbidden", "you see the VMs of your own project only: ask without project")
    return DomainFilter(
        host=call.query.get("host"),
        project=asked if own is None else own,
        name=call.query.get("name"),
        state=None if state is None else DomainState(state),
    )


def _detail(call: Call, report: Report, one: DomainReport) -> dict[str, Any]:
    seen = one.observation
    demand = next((each for each in report.plan.demands if each.uuid == seen.uuid), None)
    by_lever = {str(each.lever): each for each in one.reclaimable}
    stored = call.parts.store.policies.read(seen.uuid)
    unread = stored.unreadable.get(seen.uuid)
    # Its host says so by itself, as soon as it has looked; in a fleet the wish may stand in this store alone.
    more = () if unread is None or one.careful else (Gap(POLICY, GapReason.MALFORMED, unread),)
    return {
        "levers": [lever(state) for state in one.levers],
        "policy": settings_of(call, seen.uuid, stored, one),
        "excluded": to_plain(demand.excluded) if demand else [],
        "gaps": to_plain((*seen.gaps, *more)),
        "reclaimable_by": {
            name: {"at_most": each.at_most, "source": str(each.source), "at": each.at}
            for name, each in by_lever.items()
        },
        "huge_coverage": seen.deep.huge_coverage(seen.deep.rss) if seen.deep else None,
        "huge_mapped": seen.deep.mappings.huge_coverage if seen.deep and seen.deep.mappings else None,
        "remote": seen.deep.remote if seen.deep else None,
        "on_fast": seen.deep.on_fast(report.observation.tiers) if seen.deep else None,
        "active": to_plain(seen.active),
        "merging": to_plain(one.merging),
        "guest_kernel": to_plain(seen.guest_kernel),
        "minimum": demand.minimum if demand else None,
    }
