"""Whose word counts for a resource provider. Pure.

A host's report says which compute it is. The broker vouches for the host's name and for nothing else, so a claim counts
only where the provider bears that name in Placement, or where the operator says that the two are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from memhint.objects.instance import same_host
from memhint.planner.capacity_write import HostCapacity


def canonical(text: str) -> str | None:
    """A UUID as Placement writes it; None for what is none. Databases differ in whether capitals are the same."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def speaks_for(host: str, provider: str, name: str, said: Mapping[str, str]) -> bool:
    """Whether a host is the compute that a provider stands for.

    :param host: the name that the host's messages are signed with
    :param name: the provider's in Placement, which is the hypervisor's hostname
    :param said: the operator's word: UUID of the provider by name of the host. Who is named there has no other one
    """
    if host in said:
        return canonical(said[host]) == provider
    if provider in map(canonical, said.values()):
        return False  # it is another host's
    return same_host(host, name)


def rightful(
    claimants: Sequence[HostCapacity], provider: str, name: str, said: Mapping[str, str]
) -> tuple[tuple[HostCapacity, ...], tuple[HostCapacity, ...]]:
    """Those of the claimants that speak for the provider, and those that do not."""
    mine = tuple(one for one in claimants if speaks_for(one.host, provider, name, said))
    return mine, tuple(one for one in claimants if one not in mine)
