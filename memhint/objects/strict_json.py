"""What Python's json takes and JSON does not have: hooks for `json.loads` that refuse it."""

from __future__ import annotations

import math


class NotJson(ValueError):
    """JSON that is none to memhint. Its words may be shown."""


def no_constant(name: str) -> float:
    """For ``parse_constant``: NaN and Infinity are no numbers.

    :raises NotJson: always
    """
    raise NotJson(f"{name} is no number")


def finite(text: str) -> float:
    """For ``parse_float``: a number that a float can hold.

    :raises NotJson: when it is larger
    """
    number = float(text)
    if not math.isfinite(number):
        raise NotJson(f"{text[:20]} is too large")
    return number
