"""Memory is bytes inside memhint. These are the only conversions, used where bytes enter or leave."""

from __future__ import annotations

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def mib(size: int | None) -> str:
    """A size for a person, in whole MiB; what is not known is a dash, never 0."""
    return "-" if size is None else f"{round(size / MIB)}"
