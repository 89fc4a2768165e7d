"""Whose word counts for a compute: as memhint's controllers have it (memhint/planner/claims.py), who write its ratio.

The server vouches for a host's name. Which compute it is, is what the host says.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID


class Said:
    """The operator's word: UUID of the compute by name of the host. Who is named there is no other compute."""

    def __init__(self, providers: Mapping[str, str]) -> None:
        self._by_host = {host: canonical(uuid) for host, uuid in providers.items()}
        self._taken = frozenset(self._by_host.values())

    def speaks_for(self, host: str, provider: str | None, names: tuple[str, ...]) -> bool:
        """Whether a host is the compute of this UUID and these names."""
        if host in self._by_host:
            return self._by_host[host] == provider
        if provider in self._taken:
            return False  # it is another host's
        return bears_name(host, names)

    def hosts_of(self, provider: str | None) -> tuple[str, ...]:
        """The hosts that the operator says are the compute of this UUID."""
        return tuple(host for host, uuid in self._by_host.items() if uuid is not None and uuid == provider)


def bears_name(host: str, names: tuple[str, ...]) -> bool:
    """Whether a host is called as the compute of these names is, with or without domain."""
    return host in names or _is_named(host, names)


@lru_cache(1 << 16)
def _is_named(host: str, names: tuple[str, ...]) -> bool:
    """By one of them; where they are one host's, as short and full name, by all of them. Asked for each placement."""
    fits = [same_host(host, name) for name in names]
    return all(fits) or (any(fits) and not same_host(names[0], names[-1]))


def canonical(text: str) -> str | None:
    """A UUID as Nova writes it; None for what is none."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def same_host(one: str, other: str) -> bool:
    """Whether two names are one host's, where one of them may be without its domain. Capitals are the same."""
    mine, theirs = one.casefold().rstrip("."), other.casefold().rstrip(".")
    if mine == theirs:
        return True
    if "." in mine and "." in theirs:
        return False
    return short_name(mine) == short_name(theirs)


def short_name(name: str) -> str:
    """A host's name without its domain: the same for all names of one host."""
    return name.casefold().rstrip(".").partition(".")[0]
