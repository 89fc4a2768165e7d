"""Points of hosts and VMs in their histories: how long they stay, when one is due, and which of many is the worst."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

from memhint.objects.history import HistoryPoint
from memhint.objects.summary import DomainSummary
from memhint.store.rows.names import DOMAIN_HISTORY_SIZES

if TYPE_CHECKING:
    from oslo_config import cfg

FIVE_MINUTES, HOUR = 300, 3600  # seconds
TIDY_EVERY = 300.0  # seconds between two looks for what has grown old

HOST_LEAST = ("available", "headroom", "nominal_headroom")
"""Numbers of a host of which the smallest is the worst; of the others the largest."""
HOST_MOST = tuple(one.name for one in fields(HistoryPoint) if one.name not in ("at", "span", *HOST_LEAST))
DOMAIN_LEAST = ("free", "reported")
DOMAIN_MOST = ("assigned", *(name for name in DOMAIN_HISTORY_SIZES if name not in DOMAIN_LEAST))


@dataclass(frozen=True, slots=True)
class Keep:
    """Seconds for which points of each length are kept."""

    raw: float = 24 * 3600.0
    five_minutes: float = 7 * 86400.0
    hours: float = 365 * 86400.0

    @classmethod
    def of(cls, options: cfg.ConfigOpts.GroupAttr) -> Self:
        """As ``[store]`` has them."""
        return cls(options.history_hours * 3600, options.five_minute_days * 86400, options.hourly_days * 86400)

    @property
    def before_hours(self) -> float:
        """Seconds after which hours are made: not before all of one is there in five minutes."""
        return max(self.raw, self.five_minutes)


@dataclass(frozen=True, slots=True)
class DomainKeep:
    """Seconds between two points of a VM, and for which they and those of an hour are kept."""

    step: float = 60.0
    points: float = 6 * 3600.0
    hours: float = 30 * 86400.0

    @classmethod
    def of(cls, options: cfg.ConfigOpts.GroupAttr) -> Self:
        """As ``[store]`` has them."""
        return cls(options.domain_step, options.domain_hours * 3600, options.domain_hourly_days * 86400)

    def due(self, host: str, before: float | None, at: float) -> bool:
        """Whether a report made at ``at`` is the first of its step. Hosts take turns, so that not all come at once."""
        turn = zlib.crc32(host.encode()) % 1000 / 1000 * self.step
        return before is None or (before + turn) // self.step != (at + turn) // self.step


KEEP, DOMAIN_KEEP = Keep(), DomainKeep()


def host_point(host: str, point: HistoryPoint) -> dict[str, object]:
    """The row of a host's point."""
    row: dict[str, object] = {one.name: getattr(point, one.name) for one in fields(HistoryPoint)}
    return {**row, "host": host, "bucket": int(point.at // FIVE_MINUTES) * FIVE_MINUTES}


def domain_point(one: DomainSummary) -> dict[str, object]:
    """The row of a VM's point."""
    row: dict[str, object] = {name: getattr(one, name) for name in ("uuid", "at", "assigned", *DOMAIN_HISTORY_SIZES)}
    return {**row, "span": 0, "bucket": int(one.at // HOUR) * HOUR}


def clock_windows(now: float, keep: float) -> tuple[tuple[int, int], tuple[int, int]]:
    """From when to when there must have been points, where ``keep`` seconds of them are kept: long ago, and lately.

    What is old is deleted only where there were, see `memhint.store.retention`.
    """
    return (int(now - 2 * keep), int(now - keep / 2)), (int(now - keep / 2), int(now - keep / 4))
