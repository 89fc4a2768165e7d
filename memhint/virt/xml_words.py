"""Amounts and sets of nodes, as libvirt's XML writes them."""

from __future__ import annotations

import re

from memhint.objects.units import KIB

_NODESET = re.compile(r"(?P<not>\^)?(?P<low>[0-9]{1,3})(?:-(?P<high>[0-9]{1,3}))?")
_UNITS = {
    "b": 1,
    "bytes": 1,
    "KB": 1000,
    "k": KIB,
    "KiB": KIB,
    "MB": 1000**2,
    "M": KIB**2,
    "MiB": KIB**2,
    "GB": 1000**3,
    "G": KIB**3,
    "GiB": KIB**3,
    "T": KIB**4,
    "TiB": KIB**4,
}


def amount(text: str, unit: str) -> int | None:
    """Bytes; None where it is no amount of memory."""
    return int(text) * _UNITS[unit] if text.isdecimal() and unit in _UNITS else None


def nodeset(text: str) -> frozenset[int]:
    """The nodes of a set like "0-3,^2"; what is no node in it is left out."""
    found: set[int] = set()
    excluded: set[int] = set()
    for part in text.split(","):
        match = _NODESET.fullmatch(part.strip())
        if match is None:
            continue
        low = int(match["low"])
        some = range(low, int(match["high"] or low) + 1)
        (excluded if match["not"] else found).update(some)
    return frozenset(found - excluded)
