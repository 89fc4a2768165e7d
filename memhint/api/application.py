"""The WSGI application: from a request to its route, past every check, to its handler and back."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from math import ceil
from typing import Any

from werkzeug import Request, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.routing import Map, RequestRedirect, Rule
from werkzeug.utils import redirect

from memhint.api import http, microversion, words
from memhint.api.auth import Authenticator
from memhint.api.connections import KNOWN, THERE
from memhint.api.context import ANONYMOUS, Context
from memhint.api.errors import Problem, not_found, too_many
from memhint.api.limits import BODY_MOST, AtOnce, Buckets, client_of
from memhint.api.parts import Parts
from memhint.api.route import ApiResponse, Call, Route
from memhint.api.routes import ROUTES
from memhint.api.schemas.common import PATHS
from memhint.objects.counted import counted
from memhint.store.errors import ChangesExpired, MarkerError, StoreError, StoreRefused

LOG = logging.getLogger(__name__)
_ROUTE = "memhint.route"  # in the environment of a request: its path in the route table


class Application:
    """One per process, for any number of threads."""

    def __init__(
        self,
        parts: Parts,
        way: Authenticator,
        buckets: Buckets,
        at_once: AtOnce,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self._way = way
        self._buckets = buckets
        self._at_once = at_once
        self._monotonic = monotonic
        rules = [Rule(one.path, endpoint=one, methods=[one.method]) for one in ROUTES]
        self._map = Map(rules, strict_slashes=True, merge_slashes=False, redirect_defaults=False)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        request = Request(environ)
        request.max_content_length = BODY_MOST
        request_id = f"req-{uuid.uuid4()}"
        began = self._monotonic()
        who = Context(request_id=request_id)
        try:
            who, route, path = self._enter(request, request_id)
            response = self._worked(request, who, route, path)
        except Problem as problem:
            response = _problem(problem, request_id)
        except RequestRedirect:  # only what ends in a slash leads somewhere else, and that is the dashboard
            response = redirect(f"{request.root_path}{request.path}/", 308)
        except Exception as error:
            LOG.exception("%s: %s %s failed", request_id, request.method, _shown(request))
            if isinstance(error, StoreError):
                self.parts.requests.store_failed()
            response = _problem(_server_error(error), request_id)
        response.headers["X-Openstack-Request-Id"] = request_id
        response.headers.setdefault(microversion.HEADER, f"{microversion.SERVICE} {microversion.VERSIONS[0]}")
        response.headers.add("Vary", microversion.HEADER)
        for name, value in http.SECURITY.items():
            response.headers.setdefault(name, value)
        took = self._monotonic() - began
        self.parts.requests.answered(request.method, environ.get(_ROUTE), response.status_code, took)
        LOG.info(
            "%s %s by %s: %d in %.1f ms",
            request.method,
            _shown(request),
            who.name,
            response.status_code,
            took * 1000,
        )
        return response(environ, start_response)

    def close(self) -> None:
        """End what goes on for ever."""
        self.parts.hub.close()

    def _enter(self, request: Request, request_id: str) -> tuple[Context, Route, dict[str, str]]:
        """Who it is and what is wanted; an unknown token costs as much as any other request."""
        who, refused = Context(request_id=request_id), None
        try:
            who = self._way.authenticate(request, request_id)
        except Problem as problem:
            refused = problem
        self._limit(_client(request, who))
        if refused is not None and refused.status not in (401, 503):  # those two ask nothing of what is open to all
            raise refused
        if who.known and KNOWN in request.environ:
            request.environ[KNOWN]()
        route, path = self._match(request)
        request.environ[_ROUTE] = route.path
        if route.rule is not None and not who.known:
            raise refused or Problem(
                401,
                "unauthenticated",
                "show a token in X-Auth-Token, or as Authorization: Bearer",
                headers={"WWW-Authenticate": self._way.challenge},
            )
        return who, route, path

    def _worked(self, request: Request, who: Context, route: Route, path: dict[str, str]) -> Response:
        client = _client(request, who)
        if not self._at_once.begin(client):
            most = counted(self._at_once.most, "request of yours is", "requests of yours are")
            raise too_many(f"{most} worked at: ask when they are answered")
        try:
            return http.response_of(request, self._answer(request, who, route, path))
        finally:
            self._at_once.end(client)

    def _limit(self, client: str) -> None:
        wait = self._buckets.take(client)
        if wait:
            raise too_many(f"ask again in {ceil(wait)} s", wait)

    def _match(self, request: Request) -> tuple[Route, dict[str, str]]:
        # Not bound to the request's Host: addresses here do not depend on what a caller says of that.
        adapter = self._map.bind("memhint")
        try:
            route, path = adapter.match(request.path, method=request.method)
        except RequestRedirect:
            raise
        except MethodNotAllowed as error:
            allowed = ", ".join(sorted(error.valid_methods or ()))
            raise Problem(
                405, "method_not_allowed", f"this address takes {allowed}", headers={"Allow": allowed}
            ) from None
        except HTTPException:
            raise not_found("address", "there is nothing here: GET /openapi.json tells what there is") from None
        return route, dict(path)

    def _answer(self, request: Request, who: Context, route: Route, path: dict[str, str]) -> ApiResponse | Response:
        version = microversion.version_of(request.headers.get(microversion.HEADER))
        if route.rule is not None:
            self.parts.enforcer.authorize(route.rule, who, who.project_id)
        for name, value in path.items():
            if name in PATHS:
                try:
                    words.check(value, PATHS[name], "invalid")
                except Problem:
                    raise not_found("address", f"this is not a valid {name}") from None
        query = words.query_of(request.args, route.query)
        body = None if route.body is None else words.body_of(request, route.body)
        try:
            still, there = self._way.still(request, who), request.environ.get(THERE, lambda: True)
            answer = route.handler(Call(request, who, self.parts, path, query, body, still, there))
        except MarkerError as error:
            raise Problem(400, "marker.invalid", str(error)) from None
        except StoreRefused as error:
            # What got through the schemas and is still none to the database came from the caller.
            LOG.warning("the database refuses a value of %s %s: %s", request.method, _shown(request), error)
            raise Problem(400, "value.refused", "the database cannot store one of these values") from None
        except ChangesExpired:
            raise Problem(
                410, "changed_since.expired", "what changed since then can no longer be told: ask without changed_since"
            ) from None
        if isinstance(answer, ApiResponse):
            return ApiResponse(
                answer.body,
                answer.status if answer.status != 200 else route.status,
                {**answer.headers, microversion.HEADER: f"{microversion.SERVICE} {version}"},
                answer.media,
            )
        return answer


def _client(request: Request, who: Context) -> str:
    return f"known {who.name}" if who.known else client_of(request.remote_addr or ANONYMOUS)


def _server_error(error: Exception) -> Problem:
    if isinstance(error, StoreError):
        return Problem(
            503,
            "store.away",
            "the store does not answer as it should: the log of memhint api says why, by request_id",
            headers={"Retry-After": "5"},
        )
    return Problem(500, "internal", "this is a bug in memhint: look for the request_id in the log of memhint api")


def _problem(problem: Problem, request_id: str) -> Response:
    headers = {**problem.headers, "Cache-Control": "no-store"}
    return Response(http.dump(problem.body(request_id)), problem.status, headers, content_type="application/json")


def _shown(request: Request) -> str:
    """The address as it may be logged: without its query, and on one line."""
    return "".join(sign if sign.isprintable() else "?" for sign in request.path[:200])
