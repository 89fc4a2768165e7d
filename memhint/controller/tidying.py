"""What has grown old goes, beside the messages: in a large fleet that takes minutes, and no host is stale meanwhile."""

from __future__ import annotations

import logging

from memhint.store import Store

LOG = logging.getLogger(__name__)


class Tidier:
    """Thins out the history, and forgets hosts and wishes of which nothing was heard for long."""

    def __init__(self, store: Store, forget: float) -> None:
        """:param forget: seconds after which what is gone is forgotten"""
        self._fleet = store.fleet
        self._policies = store.central_policies
        self._forget = forget

    def round(self) -> None:
        """Do all of it once.

        :raises StoreError: when the database fails; what is left waits for the next round
        """
        try:
            for host in self._fleet.forget(self._forget):
                LOG.warning("%s was silent for so long that it is forgotten", host)
            self._policies.prune(self._forget)
        finally:
            self._fleet.tidy()
