"""A client of the admin API: a method for each of its operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from memhint.client.errors import BadAnswer
from memhint.client.follow import News, follow
from memhint.client.transport import Document, Query, Transport

PAGE = 1000  # items in one part of a list: the most that the server gives

T = TypeVar("T")

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """A whole list. ``changed`` is the token with which to ask for what changed since."""

    items: Sequence[Item]
    changed: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since a token: items as they are now, the names or UUIDs of those deleted, and the next token."""

    items: Sequence[Item]
    deleted: Sequence[str]
    changed: str


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy of a VM: ``value`` and ``origin`` by key. ``etag`` names this state of it, for ``if_match``."""

    values: Mapping[str, Mapping[str, str | None]]
    etag: str | None


class Client:
    """One API. Sizes are bytes, times unix seconds, and None is unknown. Every method may raise ClientError."""

    def __init__(self, transport: Transport, sleep: Callable[[float], None] = time.sleep) -> None:
        self._transport = transport
        self._sleep = sleep

    # Hosts

    def hosts(self, *, sort: str | None = None, limit: int | None = None, tier: int | None = None) -> Iterator[Item]:
        """Hosts, sorted as ``sort`` says ("headroom:desc"), ``limit`` at most. Pages are fetched as they are needed.

        :param tier: bytes of slower memory of which `tier_gain` tells; None: as many as each host has for VMs
        """
        return self._items("/v1/hosts", "hosts", {"sort": sort, "tier": tier}, limit)

    def list_hosts(self) -> Listing:
        """All hosts, and the token for `changed_hosts`."""
        return self._listing("/v1/hosts", "hosts", {})

    def changed_hosts(self, since: str) -> Changes:
        """The hosts that changed since this token.

        :raises Expired: when the token is too old: list again
        """
        return self._changes("/v1/hosts", "hosts", {"changed_since": since})

    def host(self, name: str, *, tier: int | None = None) -> Item:
        """A host, with every term of its headroom, its levers and its ladder.

        :param tier: bytes of slower memory of which `tier` tells; None: a quarter, a half and all of its memory for VMs
        :raises NotFound: when no agent of this name has reported
        """
        return _member(self._transport.get(f"/v1/hosts/{_part(name)}", {"tier": tier}), "host", dict)

    def host_history(self, name: str, **when: float | int | None) -> Sequence[Item]:
        """A host's key numbers, oldest first; ``since`` and ``until`` in unix seconds, ``step`` in seconds.

        :raises NotFound: when no agent of this name has reported
        """
        return _list(self._transport.get(f"/v1/hosts/{_part(name)}/history", when), "points")

    def history(self, **when: float | int | None) -> Sequence[Item]:
        """The key numbers of all hosts, summed; parameters as of `host_history`."""
        return _list(self._transport.get("/v1/history", when), "points")

    def promises(self, since: float | None = None) -> Item:
        """In how many hours the hosts' promises held, and whose did not; of the last week, or since unix seconds."""
        return _member(self._transport.get("/v1/promises", {"since": since}), "promises", dict)

    # VMs

    def domains(self, *, sort: str | None = None, limit: int | None = None, **which: str | None) -> Iterator[Item]:
        """VMs, listed as `hosts` are. ``which``: of this ``host``, ``project``, ``name`` (a part of it), ``state``."""
        return self._items("/v1/domains", "domains", {"sort": sort, **which}, limit)

    def list_domains(self, **which: str | None) -> Listing:
        """All VMs that pass the filter, and the token for `changed_domains`."""
        return self._listing("/v1/domains", "domains", which)

    def changed_domains(self, since: str, **which: str | None) -> Changes:
        """The VMs that changed since this token and pass the filter now.

        :raises Expired: when the token is too old: list again
        """
        return self._changes("/v1/domains", "domains", {"changed_since": since, **which})

    def domain(self, uuid: str) -> Item:
        """A VM, with its policy, its levers and what it could give back.

        :raises NotFound: when no host has it, or the caller may not see it
        """
        return _member(self._transport.get(f"/v1/domains/{_part(uuid)}"), "domain", dict)

    def domain_history(self, uuid: str, **when: float | int | None) -> Sequence[Item]:
        """A VM's key numbers, oldest first; parameters as of `host_history`.

        :raises NotFound: when no host has it, or the caller may not see it
        """
        return _list(self._transport.get(f"/v1/domains/{_part(uuid)}/history", when), "points")

    # Policy

    def policy(self, uuid: str) -> Policy:
        """The policy that holds for a VM.

        :raises NotFound: when no host has it, or the caller may not see it
        """
        answer = self._transport.get(f"/v1/domains/{_part(uuid)}/policy")
        return Policy(_member(answer, "policy", dict), answer.etag)

    def set_policy(
        self, uuid: str, values: Mapping[str, str | None], *, dry_run: bool = False, if_match: str | None = None
    ) -> Item:
        """Set an operator's wishes by key; None removes one.

        :param dry_run: store nothing, and return what the levers would do, too
        :param if_match: the ``etag`` of the policy that the change is based on
        :returns: ``policy`` as it holds then, ``changes``, and ``levers`` of a dry run
        :raises Conflict: when the policy has changed since
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
        """Remove all of an operator's wishes; parameters, result and errors as of `set_policy`."""
        return self._transport.send(
            "DELETE",
            f"/v1/domains/{_part(uuid)}/policy",
            query={"dry_run": True} if dry_run else None,
            if_match=if_match,
            again=dry_run,
        ).body

    # What is planned and done

    def plan(self, memory: int, count: int = 1, hosts: Iterable[str] = ()) -> Item:
        """On which hosts ``count`` VMs of ``memory`` bytes would fit. Nothing is changed."""
        body: dict[str, Any] = {"memory": memory, "count": count}
        wanted = list(hosts)
        if wanted:
            body["hosts"] = wanted
        return _member(self._transport.send("POST", "/v1/plans", body, again=True), "plan", dict)

    def reclaim(self, domain: str, reason: str, **how: object) -> Item:
        """Ask a guest to give back page cache, and return the request as it was queued.

        Its ``delivery`` says whether the host's agent was told, where the API says so.

        It is sent once only: after Unreachable, look at `reclaims` before asking again.

        :param reason: why, for the record
        :param how: ``bytes`` (at most), ``psi_limit`` (percent), ``timeout`` and ``hold`` (seconds), ``dry_run``
        """
        body = {"domain": domain, "reason": reason, **{name: one for name, one in how.items() if one is not None}}
        return _told(self._transport.send("POST", "/v1/reclaims", body))

    def reclaims(self, *, limit: int | None = None, **which: object) -> Iterator[Item]:
        """Requests to reclaim, newest first. ``which`` filters by ``domain``, ``host``, ``state`` and ``since``."""
        return self._items("/v1/reclaims", "reclaims", which, limit)

    def one_reclaim(self, number: str) -> Item:
        """A request by its id.

        :raises NotFound: when there is none, or the caller may not see it
        """
        return _member(self._transport.get(f"/v1/reclaims/{_part(number)}"), "reclaim", dict)

    def interrupt(self, number: str) -> Item:
        """End a request early; the result is as of ``reclaim``.

        :raises Conflict: when it has ended already
        """
        return _told(self._transport.send("DELETE", f"/v1/reclaims/{_part(number)}"))

    # What happened

    def refusals(self, *, limit: int | None = None, **which: object) -> Iterator[Item]:
        """What levers were refused, newest first. ``which`` filters by ``host``, ``domain`` and ``since``."""
        return self._items("/v1/refusals", "refusals", which, limit)

    def events(self, *, limit: int | None = None, **which: object) -> Iterator[Item]:
        """Events, newest first. ``which`` filters by ``host``, ``domain``, ``kind`` and ``since``."""
        return self._items("/v1/events", "events", which, limit)

    def follow(self, since: str | None = None) -> Iterator[News]:
        """Changes as they happen, without end. See memhint.client.follow."""
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
            changed = changed or _member(answer, "changed", str)
            items.extend(_list(answer, name))
        return Listing(items, changed or "")

    def _changes(self, path: str, name: str, query: Query) -> Changes:
        answer = self._transport.get(path, query)
        return Changes(_list(answer, name), _member(answer, "deleted", list), _member(answer, "changed", str))


def _list(answer: Document, name: str) -> list[dict[str, Any]]:
    found = _member(answer, name, list)
    if not all(isinstance(one, dict) for one in found):
        raise _other(name)
    return found


def _member(answer: Document, name: str, kind: type[T]) -> T:
    found = answer.body.get(name)
    if not isinstance(found, kind):
        raise _other(name)
    return found


def _told(answer: Document) -> Item:
    """A request, with what became of telling its host."""
    found = _member(answer, "reclaim", dict)
    delivery = answer.body.get("delivery")
    return {**found, "delivery": delivery} if isinstance(delivery, dict) else found


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
