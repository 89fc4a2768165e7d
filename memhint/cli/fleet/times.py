"""Moments and spans as people write them."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

_SPAN = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_UNIX = re.compile(r"[0-9]{9,11}(\.[0-9]*)?")  # from 1973 on: what is shorter is no moment that anybody means
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def span(words: str) -> int:
    """Seconds of "90s", "15m", "6h", "2d", for argparse. A number alone may be of any unit."""
    match = _SPAN.fullmatch(words.strip())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{words!r} is no span of time: write 90s, 15m, 6h or 2d")
    return int(match[1]) * _SECONDS[match[2]]


def moment(words: str) -> tuple[str, float]:
    """ "6h" (so long ago), a date with or without a time (UTC where it does not say) or unix seconds, for argparse.

    Ago is told from a moment by the first of the pair, as the time is not known here.
    """
    if _SPAN.fullmatch(words.strip()):
        return "ago", float(span(words))
    if _UNIX.fullmatch(words.strip()):
        return "at", float(words)
    try:
        found = datetime.fromisoformat(words.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{words!r} is no moment: write 6h for six hours ago, 2026-01-31T12:00, or unix seconds"
        ) from None
    return "at", (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def unix(given: tuple[str, float] | None, now: float) -> float | None:
    """Unix seconds of a moment; None where none was given."""
    if given is None:
        return None
    kind, value = given
    return max(0.0, now - value if kind == "ago" else value)
