"""Bounding what a guest says of its memory by what it was given, so that a lying guest can only hurt itself."""

from __future__ import annotations

from dataclasses import replace

from memhint.objects.guest import GuestMemory

_ORDERS_MAX = 16
_LIFETIME_MAX = (1 << 63) - 1


def clamped(memory: GuestMemory, assigned: int) -> GuestMemory:
    """The same observation with every number made possible, and the names of those that were not in ``clamped``.

    Each number of bytes ends in [0, assigned]; free, available and cached do not exceed total; reported and unreported
    together do not exceed free; the orders together do not exceed total. A total counted since boot has no such bound.

    :raises ValueError: ``assigned`` is negative
    """
    if assigned < 0:
        raise ValueError("a VM has at least 0 bytes")
    changed: list[str] = list(memory.clamped)

    def bound(name: str, value: int | None, limit: int) -> int | None:
        if value is None or 0 <= value <= limit:
            return value
        if name not in changed:
            changed.append(name)
        return min(max(value, 0), limit)

    total = bound("total", memory.total, assigned)
    whole = assigned if total is None else total
    free = bound("free", memory.free, whole)
    reported = bound("reported", memory.reported, whole if free is None else free)
    unreported = bound("unreported", memory.unreported, (whole if free is None else free) - (reported or 0))
    by_order = memory.free_by_order
    if by_order is not None:
        rest = whole
        possible: list[int] = []
        for size in by_order[:_ORDERS_MAX]:
            possible.append(min(max(size, 0), rest))
            rest -= possible[-1]
        if tuple(possible) != by_order:
            if "free_by_order" not in changed:
                changed.append("free_by_order")
            by_order = tuple(possible)
    return replace(
        memory,
        total=total,
        free=free,
        available=bound("available", memory.available, whole),
        cached=bound("cached", memory.cached, whole),
        reported=reported,
        unreported=unreported,
        free_by_order=by_order,
        lifetime_reported=bound("lifetime_reported", memory.lifetime_reported, _LIFETIME_MAX),
        clamped=tuple(changed),
    )
