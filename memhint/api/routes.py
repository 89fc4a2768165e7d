"""Every operation of the API. What is not here is not served: documents, checks and tests are made of this table."""

from __future__ import annotations

from memhint.api.handlers import (
    dashboard,
    domains,
    events,
    health,
    history,
    hosts,
    metrics,
    openapi,
    plans,
    policies,
    promises,
    reclaims,
    refusals,
    stream,
    versions,
)
from memhint.api.policies import domains as may_domains
from memhint.api.policies import events as may_events
from memhint.api.policies import history as may_history
from memhint.api.policies import hosts as may_hosts
from memhint.api.policies import metrics as may_metrics
from memhint.api.policies import plans as may_plans
from memhint.api.policies import policies as may_policies
from memhint.api.policies import promises as may_promises
from memhint.api.policies import reclaims as may_reclaims
from memhint.api.policies import refusals as may_refusals
from memhint.api.policies import stream as may_stream
from memhint.api.route import Route
from memhint.api.schemas import domains as domain_schemas
from memhint.api.schemas import events as event_schemas
from memhint.api.schemas import health as health_schemas
from memhint.api.schemas import history as history_schemas
from memhint.api.schemas import hosts as host_schemas
from memhint.api.schemas import plans as plan_schemas
from memhint.api.schemas import policies as policy_schemas
from memhint.api.schemas import promises as promise_schemas
from memhint.api.schemas import reclaims as reclaim_schemas
from memhint.api.schemas import refusals as refusal_schemas
from memhint.api.schemas import stream as stream_schemas
from memhint.api.schemas import versions as version_schemas

_DOMAIN = "/v1/domains/<uuid>"
_ANY = {"type": "object"}

ROUTES = (
    # Open to everybody
    Route("GET", "/", versions.show, None, "Which versions there are", version_schemas.SHOW, leads=True),
    Route(
        "GET",
        "/healthz",
        health.show,
        None,
        "Whether the service works",
        health_schemas.SHOW,
        unavailable=health_schemas.SHOW,
    ),
    Route("GET", "/openapi.json", openapi.show, None, "This description", _ANY),
    Route("GET", "/dashboard/", dashboard.show, None, "The dashboard", media="text/html", problems=(404,)),
    Route(
        "GET", "/dashboard/<path:file>", dashboard.show, None, "A file of the dashboard", media="*/*", problems=(404,)
    ),
    # Hosts
    Route(
        "GET",
        "/v1/hosts",
        hosts.index,
        may_hosts.LIST,
        "List hosts",
        host_schemas.LIST,
        host_schemas.LIST_QUERY,
        problems=(410,),
    ),
    Route(
        "GET",
        "/v1/hosts/<name>",
        hosts.show,
        may_hosts.SHOW,
        "Show a host",
        host_schemas.SHOW,
        host_schemas.SHOW_QUERY,
        problems=(404,),
    ),
    Route(
        "GET",
        "/v1/hosts/<name>/history",
        hosts.history,
        may_hosts.HISTORY,
        "Show a host over time",
        host_schemas.HISTORY,
        host_schemas.HISTORY_QUERY,
        problems=(404,),
    ),
    Route(
        "GET",
        "/v1/history",
        history.show,
        may_history.SHOW,
        "Show the fleet over time",
        history_schemas.SHOW,
        history_schemas.SHOW_QUERY,
    ),
    Route(
        "GET",
        "/v1/promises",
        promises.show,
        may_promises.SHOW,
        "Show in how many hours promises held",
        promise_schemas.SHOW,
        promise_schemas.SHOW_QUERY,
    ),
    # VMs
    Route(
        "GET",
        "/v1/domains",
        domains.index,
        may_domains.LIST,
        "List VMs",
        domain_schemas.LIST,
        domain_schemas.LIST_QUERY,
        problems=(410,),
    ),
    Route("GET", _DOMAIN, domains.show, may_domains.SHOW, "Show a VM", domain_schemas.SHOW, problems=(404,)),
    Route(
        "GET",
        f"{_DOMAIN}/history",
        domains.history,
        may_domains.HISTORY,
        "Show a VM over time",
        domain_schemas.HISTORY,
        domain_schemas.HISTORY_QUERY,
        problems=(404,),
    ),
    Route(
        "GET",
        f"{_DOMAIN}/policy",
        policies.show,
        may_policies.SHOW,
        "Show what holds for a VM",
        policy_schemas.SHOW,
        problems=(404,),
    ),
    Route(
        "PUT",
        f"{_DOMAIN}/policy",
        policies.update,
        may_policies.UPDATE,
        "Set an operator's wishes for a VM",
        policy_schemas.UPDATE,
        policy_schemas.UPDATE_QUERY,
        policy_schemas.UPDATE_BODY,
        problems=(404, 409, 412),
        headers=("If-Match",),
    ),
    Route(
        "DELETE",
        f"{_DOMAIN}/policy",
        policies.delete,
        may_policies.DELETE,
        "Take an operator's wishes back",
        policy_schemas.UPDATE,
        policy_schemas.UPDATE_QUERY,
        problems=(404, 409, 412),
        headers=("If-Match",),
    ),
    # What is planned and done
    Route(
        "POST",
        "/v1/plans",
        plans.create,
        may_plans.CREATE,
        "See where VMs would fit",
        plan_schemas.CREATE,
        body=plan_schemas.CREATE_BODY,
    ),
    Route(
        "POST",
        "/v1/reclaims",
        reclaims.create,
        may_reclaims.CREATE,
        "Have a guest give page cache back",
        reclaim_schemas.TOLD,
        body=reclaim_schemas.CREATE_BODY,
        status=202,
        problems=(404, 409),
    ),
    Route(
        "GET",
        "/v1/reclaims",
        reclaims.index,
        may_reclaims.LIST,
        "List such requests",
        reclaim_schemas.LIST,
        reclaim_schemas.LIST_QUERY,
    ),
    Route(
        "GET",
        "/v1/reclaims/<id>",
        reclaims.show,
        may_reclaims.SHOW,
        "Show such a request",
        reclaim_schemas.SHOW,
        problems=(404,),
    ),
    Route(
        "DELETE",
        "/v1/reclaims/<id>",
        reclaims.delete,
        may_reclaims.DELETE,
        "Interrupt such a request",
        reclaim_schemas.TOLD,
        status=202,
        problems=(404, 409),
    ),
    Route(
        "GET",
        "/v1/refusals",
        refusals.index,
        may_refusals.LIST,
        "List what was refused",
        refusal_schemas.LIST,
        refusal_schemas.LIST_QUERY,
    ),
    Route(
        "GET",
        "/v1/events",
        events.index,
        may_events.LIST,
        "List what happened",
        event_schemas.LIST,
        event_schemas.LIST_QUERY,
    ),
    # As it changes
    Route(
        "GET",
        "/v1/stream",
        stream.follow,
        may_stream.FOLLOW,
        "Follow the fleet as it changes",
        query=stream_schemas.FOLLOW_QUERY,
        media="text/event-stream",
        problems=(410,),
        headers=("Last-Event-ID",),
    ),
    Route("GET", "/metrics", metrics.show, may_metrics.SHOW, "Metrics as Prometheus has them", media=metrics.MEDIA),
)
