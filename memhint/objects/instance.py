"""A server as Nova knows it: whose it is, and where it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instance:
    """One server. ``hypervisor`` is the hypervisor's hostname, None while it has none; ``gone``: it was deleted."""

    uuid: str
    project: str
    hypervisor: str | None
    gone: bool = False


def same_host(one: str, other: str) -> bool:
    """Whether two names are one host's, where one of them may be without its domain. Capitals are the same."""
    mine, theirs = one.casefold().rstrip("."), other.casefold().rstrip(".")
    if mine == theirs:
        return True
    if "." in mine and "." in theirs:
        return False
    return mine.partition(".")[0] == theirs.partition(".")[0]
