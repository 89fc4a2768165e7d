"""The `balloon` source: virtio-balloon statistics as libvirt's bulk statistics carry them. Asks no guest agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from memhint.guest.clamp import clamped
from memhint.objects.gap import Gap, GapReason
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.units import KIB

_WHAT = "guest"
# libvirt's names are not ours: its "available" is all the guest manages, its "usable" is what Linux calls available.
_KEYS = {
    "total": "balloon.available",
    "free": "balloon.unused",
    "available": "balloon.usable",
    "cached": "balloon.disk_caches",
}
_LAST_UPDATE = "balloon.last-update"


def from_balloon_stats(stats: Mapping[str, object], now: float, assigned: int, ahead: float = 0.0) -> GuestMemory | Gap:
    """The guest's memory from the ``balloon.*`` keys (KiB), clamped to ``assigned`` bytes.

    ``at`` is when the guest last sent them (never later than ``now``, in unix seconds), so old numbers show their age.
    A Gap where the guest has never sent any, sent none of these, or something is not a number. Also where they are of
    more than ``ahead`` seconds after ``now``: of a clock that was set back since, nobody knows how old they are.

    :param ahead: seconds that libvirt may take to answer, which begin at ``now``
    """
    updated = stats.get(_LAST_UPDATE, 0)
    if not _is_number(updated):
        return Gap(_WHAT, GapReason.MALFORMED, f"{_LAST_UPDATE} is not a number")
    if updated <= 0:
        return Gap(_WHAT, GapReason.UNSUPPORTED, "the guest has never sent balloon statistics")
    if updated > now + ahead:
        return Gap(_WHAT, GapReason.TIMEOUT, "the clock was set back since the guest sent balloon statistics")
    found: dict[str, int] = {}
    for name, key in _KEYS.items():
        value = stats.get(key)
        if value is None:
            continue
        if not _is_number(value):
            return Gap(_WHAT, GapReason.MALFORMED, f"{key} is not a number")
        found[name] = value * KIB
    if not found:
        return Gap(_WHAT, GapReason.UNSUPPORTED, "the guest's balloon statistics tell nothing of its memory")
    memory = GuestMemory(
        source=GuestSource.BALLOON,
        at=float(min(updated, int(now))),
        total=found.get("total"),
        free=found.get("free"),
        available=found.get("available"),
        cached=found.get("cached"),
    )
    return clamped(memory, assigned)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
