"""What is told of hosts: once, until it is something else."""

from __future__ import annotations

import logging
from collections.abc import Callable

LOG = logging.getLogger(__name__)

Tell = Callable[[str, str], None]
"""Takes a host's name and what happened to its capacity, for the record of events."""


class HostEvents:
    """What is told of hosts: what stands in the way once, until it is something else; each ratio."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last: dict[str, str] = {}

    def last(self, host: str) -> str | None:
        """What stands in the way there, as it was told last."""
        return self._last.get(host)

    def hindered(self, host: str, what: str) -> None:
        """Tell what stands in the way."""
        if self._last.get(host) != what:
            self._last[host] = what
            LOG.warning("%s: %s", host, what)
            self._tell(host, what)

    def written(self, host: str, detail: str, why: str) -> None:
        """Tell of a ratio. Nothing stands in the way any more."""
        LOG.info("%s: allocation ratio %s (%s)", host, detail, why)
        self._tell(host, f"ratio {detail} ({why})")
        self.clear(host)

    def clear(self, host: str) -> None:
        """Nothing stands in the way any more, which is no event."""
        self._last.pop(host, None)
