"""OpenAPI 3.1, made of the route table: what is not there is not served, and what is served is there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from memhint.api.microversion import HEADER, SERVICE, VERSIONS
from memhint.api.route import JSON, Route
from memhint.api.schemas.common import PATHS, PROBLEM

_PLACE = re.compile(r"<(?:\w+:)?(\w+)>")
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_ALWAYS = (400, 406, 429, 500, 503)  # what any operation may answer
_KNOWN = (401, 403)  # and where a rule stands before it
_HEADERS: Mapping[str, Mapping[str, Any]] = {
    "If-None-Match": {"description": "entity tags that the client has: 304 where one still holds"},
    "If-Match": {"description": "the entity tag of what is changed: 412 where it has changed meanwhile"},
    "Last-Event-ID": {"description": "the id of the last message, or `changed` of a list"},
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The whole description."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(_PLACE.sub(r"{\1}", route.path), {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "memhint",
            "version": VERSIONS[-1],
            "description": "Memory is bytes, times are unix seconds; null is unknown, never 0.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {"Problem": PROBLEM},
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.id,
        "summary": route.summary,
        "tags": [route.id.split("_")[0]],
        "security": [] if route.rule is None else [{"token": []}, {"bearer": []}],
        "parameters": list(_parameters(route)),
        "responses": dict(_responses(route)),
    }
    if route.rule is not None:
        found["x-policy"] = route.rule
    if route.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": route.body}}}
    return found


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name in _PLACE.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": PATHS.get(name, {"type": "string"})}
    for name, schema in route.query.get("properties", {}).items():
        more = {"style": "form", "explode": False} if schema["type"] == "array" else {}
        yield {"name": name, "in": "query", "required": False, "schema": schema, **more}
    for name in _headers(route):
        yield {"name": name, "in": "header", "required": False, "schema": {"type": "string"}, **_HEADERS[name]}
    yield {
        "name": HEADER,
        "in": "header",
        "required": False,
        # Other services' versions may stand beside ours, so nothing more can be said of its form.
        "schema": {"type": "string"},
        "description": f"{SERVICE} {VERSIONS[0]} to {SERVICE} {VERSIONS[-1]}, or {SERVICE} latest",
    }


def _headers(route: Route) -> tuple[str, ...]:
    return (*route.headers, "If-None-Match") if _tagged(route) else route.headers


def _tagged(route: Route) -> bool:
    return route.method == "GET" and route.media == JSON


def _responses(route: Route) -> Iterable[tuple[str, dict[str, Any]]]:
    schema = {"type": "string"} if route.answer is None else route.answer
    headers = {"X-Openstack-Request-Id": {"schema": {"type": "string"}}}
    yield (
        str(route.status),
        {
            "description": HTTPStatus(route.status).phrase,
            "headers": headers,
            "content": {route.media: {"schema": schema}},
        },
    )
    if route.leads:
        yield "302", {"description": HTTPStatus(302).phrase}
    if _tagged(route):
        yield "304", {"description": HTTPStatus(304).phrase}
    for status in sorted(
        {*_ALWAYS, *route.problems, *(_KNOWN if route.rule else ()), *((413, 415) if route.body else ())}
    ):
        content = {JSON: {"schema": route.unavailable if status == 503 and route.unavailable else _PROBLEM}}
        yield str(status), {"description": HTTPStatus(status).phrase, "content": content}
