"""Memory is bytes inside memhint. These are the only conversions, used where bytes enter or leave."""

from __future__ import annotations

import re

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?\s*([KMGT]i?B?|B)?", re.IGNORECASE)
_UNITS = {"": 1, "B": 1, "K": KIB, "M": MIB, "G": GIB, "T": GIB * KIB}


def mib(size: int | None) -> str:
    """A size for a person, in whole MiB; what is not known is a dash, never 0."""
    return "-" if size is None else f"{round(size / MIB)}"


def parse_size(text: str) -> int:
    """Bytes of "512MiB", "1.5G" or "1048576": the units are powers of 1024, however they are written.

    :raises ValueError: when it is no size
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size: write 512MiB or 2GiB")
    whole, part, unit = match.groups()
    return int(float(f"{whole}.{part or 0}") * _UNITS[(unit or "")[:1].upper()])
