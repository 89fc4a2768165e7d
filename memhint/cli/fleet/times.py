"""Moments and spans as people write them."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

_SPAN = re.compile(r"([0-9]{1,6})\s*([smhdw]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def span(words: str) -> int:
    """Seconds of "90", "15m", "6h", "2d", for argparse."""
    match = _SPAN.fullmatch(words.strip())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{words!r} is no span of time: write 15m, 6h or 2d")
    return int(match[1]) * _SECONDS[match[2]]


def moment(words: str) -> tuple[str, float]:
    """ "6h" (so long ago) or a date with or without a time (UTC where it does not say), for argparse.

    Ago is told from a moment by the first of the pair, as the time is not known here.
    """
    if _SPAN.fullmatch(words.strip()):
        return "ago", float(span(words))
    try:
        found = datetime.fromisoformat(words.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{words!r} is no moment: write 6h for six hours ago, or 2026-01-31T12:00"
        ) from None
    return "at", (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def unix(given: tuple[str, float] | None, now: float) -> float | None:
    """Unix seconds of a moment; None where none was given."""
    if given is None:
        return None
    kind, value = given
    return max(0.0, now - value if kind == "ago" else value)
