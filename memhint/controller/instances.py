"""Follows Nova's list of servers, so that whose a VM is and where it runs is Nova's word and no host's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol

from memhint.objects.instance import Instance
from memhint.openstack.errors import NotThere, OpenStackError
from memhint.openstack.nova import Placed
from memhint.store.instances import TURN, Instances, InstanceSync

LOG = logging.getLogger(__name__)

WHOLE = 3600.0  # seconds between two looks at all servers: between them it is asked what has changed
OVERLAP = 300.0  # seconds by which Nova's clock may differ from the database's
_ASKED = 20  # servers that are asked for one by one before the turn is renewed


class Listing(Protocol):
    """What is asked of Nova."""

    def instances(self, since: str | None) -> Iterator[tuple[Instance, ...]]:
        """The servers of all projects, in parts; those that changed since, where a time is given."""

    def placed(self, server: str) -> Placed:
        """Where a server runs; NotThere where there is none."""


class Follower:
    """One look after the other; with several controllers they take turns."""

    def __init__(self, instances: Instances, nova: Listing, pause: float) -> None:
        """:param pause: seconds between two looks"""
        self._instances = instances
        self._nova = nova
        self._pause = pause
        self._failing = False

    def round(self) -> bool:
        """Look, where it is time and our turn; whether it was completed.

        :raises StoreError: when the database fails
        """
        look = self._instances.begin(max(TURN, self._pause) + OVERLAP)
        if look is None:
            return False
        try:
            done = self._look(look)
        except OpenStackError as error:
            if not self._failing:
                LOG.error("whose VMs are, and where they run, is as it was known: %s", error)
            self._failing = True
            return False
        if self._failing:
            LOG.info("Nova says again whose VMs are")
        self._failing = False
        return done

    def _look(self, look: InstanceSync) -> bool:
        # What lies ahead was begun while the clock was wrong: what changed since cannot be told by it.
        known = look.last is not None and look.last <= look.begun
        whole = not known or look.whole is None or not 0 <= look.begun - look.whole < WHOLE
        since = None if whole or look.last is None else _iso(look.last - OVERLAP)
        for part in self._nova.instances(since):
            if not self._instances.keep(look, part):
                return False  # it took so long that another controller has begun again
        if whole and not self._keep_those_left_out(look):
            return False
        self._instances.end(look, whole=whole, pause=self._pause)
        return True

    def _keep_those_left_out(self, look: InstanceSync) -> bool:
        """Nova leaves the servers of a cell that fails out of a list, and says nothing of it: each is asked for."""
        missing = self._instances.missing(look)
        for begin in range(0, len(missing), _ASKED):
            there = [one for one in missing[begin : begin + _ASKED] if self._has(one.uuid)]
            if not self._instances.keep(look, there):
                return False
        return True

    def _has(self, server: str) -> bool:
        try:
            self._nova.placed(server)
        except NotThere:
            return False
        return True


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
