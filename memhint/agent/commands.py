"""What an agent does when it is told to: it writes into its own store, as an operator there would, and wakes up."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memhint.agent.growth import Learnt
from memhint.agent.reclaim_store import ReclaimStore
from memhint.bus.commands import Handler
from memhint.objects.policy import Origin, PolicyError, parse_policy
from memhint.objects.reclaim import Reclaim, ReclaimRequest
from memhint.store import codec
from memhint.store.host_store import HostStore

LOG = logging.getLogger(__name__)

OVERTAKEN = 3600.0
"""Seconds in which an older policy is one that was overtaken under way. Later it is what the controllers want: their
database was set back to what it held before."""
_WHY = 200  # characters


class Commands:
    """The commands of one agent. All or nothing of each; done twice, or late, they change nothing."""

    def __init__(
        self,
        store: HostStore,
        wake: Callable[[], None],
        wall: Callable[[], float] = time.time,
        learnt: Learnt | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param learnt: what takes growth tables; None: it is made of the store"""
        self._store = store
        self._learnt = learnt or Learnt(store.growth)
        self._wake = wake
        self._wall = wall
        self._clock = clock
        # of this life's policies, and when they came: commands to another life are not for us
        self._versions: dict[str, tuple[int, float]] = {}

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """By name."""
        return {
            "look": self.look,
            "policy": self.policy,
            "reclaim": self.reclaim,
            "interrupt": self.interrupt,
            "growth": self.growth,
        }

    def look(self, _: Mapping[str, Any]) -> Mapping[str, Any]:
        """Begin a cycle now."""
        self._wake()
        return {}

    def policy(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make ``values`` all that an operator wishes of ``domain``, unless a newer ``version`` came just before.

        :raises PolicyError: on what is no policy
        :raises StoreError: when the store cannot be used
        """
        uuid, version = _text(arguments, "domain", 36), arguments.get("version")
        values = arguments.get("values")
        if type(version) is not int or not isinstance(values, dict):
            raise PolicyError("a policy has a version and values")
        if not all(isinstance(value, str) for value in values.values()):
            raise PolicyError("the values of a policy are texts")
        newest, came = self._versions.get(uuid, (version, 0.0))
        if version < newest and self._clock() - came < OVERTAKEN:
            LOG.warning("policy %d of %s comes after policy %d, which holds", version, uuid, newest)
            return {"applied": False}
        self._store.policies.replace(uuid, Origin.OPERATOR, parse_policy(values.items()))
        self._versions[uuid] = (version, self._clock())
        self._wake()
        return {"applied": True}

    def reclaim(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Queue ``request``, unless it is known. It must begin within ``left`` seconds.

        :raises ReclaimError: on one that no guest could be asked
        :raises StoreError: when it is no request, or the store cannot be used
        """
        self._store.reclaims.add_once(Reclaim(self._request(arguments)))
        self._wake()
        return {}

    def interrupt(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """End ``request`` for the reason ``why``; one that is not known yet is known as taken back from now on.

        :raises ReclaimError: on one that no guest could be asked
        :raises StoreError: when it is no request, or the store cannot be used
        """
        request, why = self._request(arguments), _text(arguments, "why", _WHY)
        self._store.reclaims.add_once(Reclaim(request))
        self._store.reclaims.interrupt(request.id, why)
        self._wake()
        return {}

    def growth(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Count VMs by ``table`` from the next cycle on. The sender knows which one is the newest.

        :raises GrowthError: on what is no table; the old one holds
        :raises StoreError: when the store cannot be used
        """
        return {"version": self._learnt.take(arguments.get("table")).version}

    def _request(self, arguments: Mapping[str, Any]) -> ReclaimRequest:
        request = codec.structure(arguments.get("request"), ReclaimRequest)
        left = codec.structure(arguments.get("left"), float)
        # The sender has another clock: the time that is left is counted on this one.
        now = self._wall()
        return replace(request, at=now, expires=now + left).check()


class ReportedReclaims:
    """The requests in the host's own store, whose progress is on its way to the fleet's."""

    def __init__(self, store: ReclaimStore, tell: Callable[[Reclaim], None]) -> None:
        self._store = store
        self._tell = tell

    def open(self) -> tuple[Reclaim, ...]:
        """See ReclaimStore."""
        return self._store.open()

    def interrupted(self) -> Mapping[str, str]:
        """See ReclaimStore."""
        return self._store.interrupted()

    def save(self, reclaim: Reclaim) -> bool:
        """See ReclaimStore. What the own store does not take is not told."""
        if not self._store.save(reclaim):
            return False
        self._tell(reclaim)
        return True


def _text(arguments: Mapping[str, Any], name: str, longest: int) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
        raise ValueError(f"{name} is 1 to {longest} printable characters")
    return value
