"""The rows behind numbers of changes."""

from __future__ import annotations

HOST, DOMAIN = "host", "domain"  # what a tombstone is of
TOLD = 3600.0  # seconds for which it is told that something is no more
GIVEN = "number"  # a row of the same table: this number was given
_LONGEST = 10**17  # microseconds: no clock is believed beyond; a token has 18 digits at most


def least(now: float) -> int:
    """No number that is taken at ``now`` (unix seconds) is smaller."""
    return min(max(0, int(now * 1e6)), _LONGEST)


def given_row(number: int, now: float) -> dict[str, object]:
    """That this number was given."""
    return {"kind": GIVEN, "name": str(number), "revision": number, "at": now}


def grave(kind: str, name: str, number: int, now: float) -> dict[str, object]:
    """That this is no more."""
    return {"kind": kind, "name": name, "revision": number, "at": now}
