"""What is known of all hosts at one moment: never changed, only replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from memhint_nova.claims import short_name
from memhint_nova.host import Host


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All hosts by name, and by the UUID of a compute all that say that they are it.

    ``unread`` are the names of those that were told of last in a way that is not understood. What was known of them
    before may still be there.
    """

    hosts: Mapping[str, Host] = field(default_factory=dict)
    by_provider: Mapping[str, tuple[Host, ...]] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()
    by_short_name: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names of hosts, of the unread too
    token: str | None = None  # where the next look begins
    at: float | None = None  # of the last answer, on the monotonic clock; None before the first

    def with_news(
        self,
        changed: Iterable[Host],
        deleted: Iterable[str],
        token: str | None,
        at: float,
        whole: bool,
        unread: Iterable[str] = (),
    ) -> Snapshot:
        """The next one. ``whole``: what was not told is no more."""
        hosts = {} if whole else dict(self.hosts)
        bad = set() if whole else set(self.unread)
        for name in deleted:
            hosts.pop(name, None)
            bad.discard(name)
        for one in changed:
            hosts[one.name] = _newer(hosts.get(one.name), one)
            bad.discard(one.name)
        bad.update(unread)
        claimants: dict[str, list[Host]] = {}
        for one in hosts.values():
            if one.provider is not None:
                claimants.setdefault(one.provider, []).append(one)
        by_provider = {provider: tuple(claim) for provider, claim in claimants.items()}
        names: dict[str, list[str]] = {}
        for name in hosts.keys() | bad:
            names.setdefault(short_name(name), []).append(name)
        by_short_name = {short: tuple(found) for short, found in names.items()}
        return Snapshot(hosts, by_provider, frozenset(bad), by_short_name, token, at)

    def without_news(self, at: float) -> Snapshot:
        """The same, once the server has said that nothing changed."""
        return replace(self, at=at)


def _newer(known: Host | None, told: Host) -> Host:
    """Of one host: a report that is told late does not replace a newer one, and one told again lives no longer."""
    if known is None or known.mark[0] != told.mark[0]:
        return told
    if known.mark[1] != told.mark[1]:
        return max(known, told, key=lambda one: one.mark[1])
    return min(known, told, key=lambda one: one.expires)
