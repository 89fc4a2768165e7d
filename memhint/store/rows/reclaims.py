"""Requests to reclaim as rows, and back."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from memhint.objects.reclaim import Reclaim, ReclaimError, ReclaimState
from memhint.objects.words import UNKNOWN
from memhint.store import codec
from memhint.store.errors import StoreDamaged

LOG = logging.getLogger(__name__)
OPEN = (*(str(state) for state in ReclaimState if not state.ended), UNKNOWN)
ENDED = tuple(str(state) for state in ReclaimState if state.ended)


def reclaim_row(host: str, one: Reclaim) -> dict[str, object]:
    """A whole row.

    :raises ReclaimError: on a request that no guest could be asked
    """
    request = one.request.check()
    return {"id": request.id, "host": host, "domain_uuid": request.uuid, "at": request.at} | changing(one)


def changing(one: Reclaim) -> dict[str, object]:
    """What changes of it as it goes on."""
    return {"state": str(one.state), "document": codec.dump(one)}


def readable(rows: Iterable[tuple[str, str]]) -> tuple[list[Reclaim], list[tuple[str, str]]]:
    """The requests of rows, and the id and document of those that cannot be read: they keep no other from its turn."""
    found, damaged = [], []
    for name, document in rows:
        if (one := if_readable(name, document)) is None:
            damaged.append((name, document))
        else:
            found.append(one)
    return found, damaged


def if_readable(name: str, document: str) -> Reclaim | None:
    """The request of one row; None, which is logged, where it cannot be read."""
    try:
        return parse_reclaim(document)
    except StoreDamaged as error:
        LOG.error("the request %s is passed over: %s", name, error)
        return None


def parse_reclaim(document: str) -> Reclaim:
    """The request of a document.

    :raises StoreDamaged: when it is none
    """
    found = codec.parse_as(document, Reclaim)
    try:
        found.request.check()
    except ReclaimError as error:
        raise StoreDamaged(f"a stored request is of another version or damaged: {error}") from error
    return found
