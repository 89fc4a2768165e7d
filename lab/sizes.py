"""Sizes as people write them, to and from bytes."""

from __future__ import annotations

import re

from lab.errors import BadSize

MIB = 1 << 20
GIB = 1 << 30

_UNITS = {
    "": 1, "B": 1,
    "K": 1 << 10, "KIB": 1 << 10,
    "M": MIB, "MIB": MIB,
    "G": GIB, "GIB": GIB,
    "T": 1 << 40, "TIB": 1 << 40,
}  # fmt: skip
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*\Z")


def parse_size(text: str) -> int:
    """Bytes meant by `text`: "1GiB", "512 MiB", "1.5G", or plain bytes.

    Decimal units (GB, MB) are refused and not guessed: the two readings are 7 % apart.
    """
    match = _PATTERN.match(text)
    if match is None:
        raise BadSize(f"{text!r} is not a size: write a number and a unit, such as 512MiB or 1GiB")
    number, unit = match.groups()
    factor = _UNITS.get(unit.upper())
    if factor is None:
        raise BadSize(f"{text!r}: unit {unit!r} is not known: use KiB, MiB, GiB, TiB, or bytes without a unit")
    return int(float(number) * factor) if "." in number else int(number) * factor


def format_size(size: int) -> str:
    """`size` bytes for people, in the largest binary unit that leaves at least 1."""
    for unit, factor in (("TiB", 1 << 40), ("GiB", GIB), ("MiB", MIB), ("KiB", 1 << 10)):
        if abs(size) >= factor:
            value = size / factor
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
    return f"{size} B"
