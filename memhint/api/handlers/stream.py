"""The stream of changes, as server-sent events."""

from __future__ import annotations

import re
from collections.abc import Callable

from memhint.api.errors import Problem
from memhint.api.handlers import events, hosts
from memhint.api.policies import stream as rules
from memhint.api.route import ApiResponse, Call
from memhint.api.stream import EVENTS_MOST, Change, Crowded
from memhint.store.database import Store
from memhint.store.log import Cursor, Log

MEDIA = "text/event-stream"
_ID = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,18})-([0-9]{1,18})(?:-([0-9]{1,18}))?)?")


def follow(call: Call) -> ApiResponse:
    """Tell what changed since the token that the client knows, and then what changes."""
    since = call.request.headers.get("Last-Event-ID") or call.query.get("since")
    if since is not None and not _ID.fullmatch(since):
        raise Problem(400, "query.invalid", "Last-Event-ID is the `changed` of a list, or an id of this stream")

    def may() -> bool:
        return call.still() and call.allowed(rules.FOLLOW)

    try:
        listener = call.parts.hub.join(since, call.who.name, may, call.there)
    except Crowded as error:
        raise Problem(503, "stream.crowded", f"{error}: try again later", headers={"Retry-After": "30"}) from None
    return ApiResponse(
        listener.messages(), headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}, media=MEDIA
    )


def looker(store: Store, log: Log) -> Callable[[str | None], Change]:
    """How the hub looks. An id is a token of the hosts, how far both tables of events were read, and when: a host that
    falls silent changes nothing in the store before a controller notes it, and is told as it grows stale.
    """
    view = store.hosts_view

    def look(since: str | None) -> Change:
        token, cursor, moment = _parse(since)
        if token is None:
            return Change(_id(view.token(), log.cursor(), view.now()), (), ())
        happened, cursor = log.after(cursor, EVENTS_MOST) if cursor is not None else ((), log.cursor())
        changes = view.changed(token)
        stale, now = view.grown_stale(moment)
        found = {one.name: one for one in (*changes.items, *stale)}
        return Change(
            _id(changes.token, cursor, now),
            tuple(map(hosts.item_of, found.values())),
            tuple(changes.deleted),
            tuple(map(events.item_of, happened)),
        )

    return look


def _parse(since: str | None) -> tuple[str | None, Cursor | None, float | None]:
    found = _ID.fullmatch(since or "")
    if found is None:
        return None, None, None
    token, levers, of_hosts, moment = found.groups()
    cursor = None if levers is None else Cursor(int(levers), int(of_hosts))
    return token, cursor, None if moment is None else int(moment) / 1000


def _id(token: str, cursor: Cursor, moment: float) -> str:
    return f"{token}-{cursor.levers}-{cursor.hosts}-{int(1000 * moment)}"
