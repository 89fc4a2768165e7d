"""A headroom as Placement's allocation ratio."""

from __future__ import annotations

import math

QUANTUM = 0.01  # the ratio moves in steps of this size


def ratio(allocated: int, headroom: int, total: int, reserved: int, most: float, quantum: float = QUANTUM) -> float:
    """min(``most``, (N + max(0, H)) / (total − reserved)), both rounded down to a whole number of quanta.

    All amounts in one unit: N is what VMs with an allocation were given. There is no least ratio: "stop admitting"
    must be able to go below what is used. 0 where nothing is left of the total.
    """
    base = total - reserved
    if base <= 0:
        return 0.0
    per = round(1 / quantum)
    steps = min((max(0, allocated) + max(0, headroom)) * per // base, math.floor(most * per + 1e-9))
    return max(0, steps) / per
