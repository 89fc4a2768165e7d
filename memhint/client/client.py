"""What the API can be asked, a method for each operation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from memhint.client.errors import BadAnswer
from memhint.client.follow import News, follow
from memhint.client.transport import Document, Query, Transport

PAGE = 1000  # items in one part of a list: the most that the server gives

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole list, and the token from which on changes to it are told."""

    items: Sequence[Item]
    changed: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since a token, the names or UUIDs that are no more, and the next token."""

    items: Sequence[Item]
    deleted: Sequence[str]
    changed: str


@dataclass(frozen=True, slots=True)
class Policy:
    """Each key's ``value`` and ``origin``; ``etag`` names this state of them."""

    values: Mapping[str, Mapping[str, str | None]]
    etag: str | None


class Client:
    """An API. Bytes, unix seconds, None for what is unknown, as the API has them. Every method raises ClientError."""

    def __init__(self, transport: Transport, sleep: Callable[[float], None] = time.sleep) -> None:
        self._transport = transport
        self._sleep = sleep

    # Hosts

    def hosts(self, *, sort: str | None = None, limit: int | None = None) -> Iterator[Item]:
        """Hosts in the order of ``sort`` ("headroom:desc"), fetched part by part as they are taken."""
        return self._items("/v1/hosts", "hosts", {"sort": sort}, limit)

    def list_hosts(self) -> Listing:
        """Every host, and from where on changes are told."""
        return self._listing("/v1/hosts", "hosts", {})

    def changed_hosts(self, since: str) -> Changes:
        """What changed.

        :raises Expired: when that can no longer be told: list again
        """
        return self._changes("/v1/hosts", "hosts", {"changed_since": since})

    def host(self, name: str) -> Item:
        """One in full.

        :raises NotFound: when there is none
        """
        return _object(self._transport.get(f"/v1/hosts/{_part(name)}"), "host")

    def host_history(self, name: str, **when: float | int | None) -> Sequence[Item]:
        """Its numbers over time; ``since`` and ``until`` in unix seconds, ``step`` in seconds."""
        return _list(self._transport.get(f"/v1/hosts/{_part(name)}/history", when), "points")

    def history(self, **when: float | int | None) -> Sequence[Item]:
        """The same, summed over the fleet."""
        return _list(self._transport.get("/v1/history", when), "points")

    # VMs

    def domains(self, *, sort: str | None = None, limit: int | None = None, **which: str | None) -> Iterator[Item]:
        """VMs; ``which`` is host, project, name (a part of it), state."""
        return self._items("/v1/domains", "domains", {"sort": sort, **which}, limit)

    def list_domains(self, **which: str | None) -> Listing:
        """Every VM of that kind, and from where on changes are told."""
        return self._listing("/v1/domains", "domains", which)

    def changed_domains(self, since: str, **which: str | None) -> Changes:
        """What changed. One that is no longer of that kind is not told.

        :raises Expired: when that can no longer be told: list again
        """
        return self._changes("/v1/domains", "domains", {"changed_since": since, **which})

    def domain(self, uuid: str) -> Item:
        """One in full.

        :raises NotFound: when there is none
        """
        return _object(self._transport.get(f"/v1/domains/{_part(uuid)}"), "domain")

    def domain_history(self, uuid: str, **when: float | int | None) -> Sequence[Item]:
        """Its numbers over time; ``since`` and ``until`` in unix seconds, ``step`` in seconds."""
        return _list(self._transport.get(f"/v1/domains/{_part(uuid)}/history", when), "points")

    # Policy

    def policy(self, uuid: str) -> Policy:
        """What holds for a VM."""
        answer = self._transport.get(f"/v1/domains/{_part(uuid)}/policy")
        return Policy(_object(answer, "policy"), answer.etag)

    def set_policy(
        self, uuid: str, values: Mapping[str, str | None], *, dry_run: bool = False, if_match: str | None = None
    ) -> Item:
        """Set an operator's wishes; None takes one back. ``policy``, ``changes``, and with ``dry_run`` ``levers``.

        :raises Conflict: when it no longer is in the state ``if_match`` names
        """
        return self._transport.send(
            "PUT",
            f"/v1/domains/{_part(uuid)}/policy",
            {"policy": dict(values)},
            query={"dry_run": True} if dry_run else None,
            if_match=if_match,
            again=dry_run,
        ).body

    def clear_policy(self, uuid: str, *, dry_run: bool = False, if_match: str | None = None) -> Item:
        """Take all of them back."""
        return self._transport.send(
            "DELETE",
            f"/v1/domains/{_part(uuid)}/policy",
            query={"dry_run": True} if dry_run else None,
            if_match=if_match,
            again=dry_run,
        ).body

    # What is planned and done

    def plan(self, memory: int, count: int = 1, hosts: Iterable[str] = ()) -> Item:
        """Where so many VMs of so many bytes would fit; nothing is changed."""
        body: dict[str, Any] = {"memory": memory, "count": count}
        wanted = list(hosts)
        if wanted:
            body["hosts"] = wanted
        return _object(self._transport.send("POST", "/v1/plans", body, again=True), "plan")

    def reclaim(self, domain: str, reason: str, **how: object) -> Item:
        """Ask a guest for page cache; ``how``: bytes, psi_limit, timeout, hold, dry_run. The request as queued.

        It is sent once. After Unreachable look at `reclaims` before asking again.
        """
        body = {"domain": domain, "reason": reason, **{name: one for name, one in how.items() if one is not None}}
        return _object(self._transport.send("POST", "/v1/reclaims", body), "reclaim")

    def reclaims(self, *, limit: int | None = None, **which: object) -> Iterator[Item]:
        """Requests, newest first; ``which`` is domain, host, state, since."""
        return self._items("/v1/reclaims", "reclaims", which, limit)

    def one_reclaim(self, number: str) -> Item:
        """One of them.

        :raises NotFound: when there is none
        """
        return _object(self._transport.get(f"/v1/reclaims/{_part(number)}"), "reclaim")

    def interrupt(self, number: str) -> Item:
        """End one early.

        :raises Conflict: when it has ended
        """
        return _object(self._transport.send("DELETE", f"/v1/reclaims/{_part(number)}"), "reclaim")

    # What happened

    def refusals(self, *, limit: int | None = None, **which: object) -> Iterator[Item]:
        """What levers were refused, newest first; ``which`` is host, domain, since."""
        return self._items("/v1/refusals", "refusals", which, limit)

    def events(self, *, limit: int | None = None, **which: object) -> Iterator[Item]:
        """What happened, newest first; ``which`` is host, domain, kind, since."""
        return self._items("/v1/events", "events", which, limit)

    def follow(self, since: str | None = None) -> Iterator[News]:
        """What changes, as it does, for ever. See memhint.client.follow."""
        return follow(self._transport, since, self._sleep)

    # Parts

    def _items(self, path: str, name: str, query: Query, limit: int | None) -> Iterator[Item]:
        left = limit
        for answer in self._pages(path, query, limit):
            for one in _list(answer, name):
                if left is not None:
                    if left <= 0:
                        return
                    left -= 1
                yield one
            if left == 0:
                return

    def _pages(self, path: str, query: Query, limit: int | None = None) -> Iterator[Document]:
        size = PAGE if limit is None else max(1, min(PAGE, limit))
        marker: str | None = None
        while True:
            answer = self._transport.get(path, {**query, "limit": size, "marker": marker})
            yield answer
            after = _marker(answer.body.get("next"))
            if after is None:
                return
            if after == marker:
                raise BadAnswer(f"the list at {path} does not come to an end")
            marker = after

    def _listing(self, path: str, name: str, query: Query) -> Listing:
        items: list[Item] = []
        changed: str | None = None
        for answer in self._pages(path, query):
            # The first part's: what changes while the others are fetched is told again rather than not at all.
            changed = changed or _text(answer, "changed")
            items.extend(_list(answer, name))
        return Listing(items, changed or "")

    def _changes(self, path: str, name: str, query: Query) -> Changes:
        answer = self._transport.get(path, query)
        return Changes(_list(answer, name), _part_of(answer, "deleted"), _text(answer, "changed"))


def _object(answer: Document, name: str) -> dict[str, Any]:
    found = answer.body.get(name)
    if not isinstance(found, dict):
        raise _other(name)
    return found


def _list(answer: Document, name: str) -> list[dict[str, Any]]:
    found = _part_of(answer, name)
    if not all(isinstance(one, dict) for one in found):
        raise _other(name)
    return found


def _part_of(answer: Document, name: str) -> list[Any]:
    found = answer.body.get(name)
    if not isinstance(found, list):
        raise _other(name)
    return found


def _text(answer: Document, name: str) -> str:
    found = answer.body.get(name)
    if not isinstance(found, str):
        raise _other(name)
    return found


def _other(name: str) -> BadAnswer:
    return BadAnswer(f"the answer has no {name} that can be read: is that the API of memhint?")


def _marker(address: object) -> str | None:
    """The marker in the address of a next part. The address itself is not used: a proxy may have moved the API."""
    if address is None:
        return None
    found = parse_qs(urlsplit(str(address)).query).get("marker")
    if not found:
        raise BadAnswer(f"the next part of the list has no marker: {str(address)[:200]!r}")
    return found[0]


def _part(word: str) -> str:
    """A name as one part of a path."""
    return quote(word, safe="")
