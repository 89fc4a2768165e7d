"""Memory is bytes inside memhint. These are the only conversions, used where bytes enter or leave."""

from __future__ import annotations

import re

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_FACTORS = {"": 1, "B": 1, "KIB": KIB, "MIB": MIB, "GIB": GIB, "TIB": 1 << 40, "K": KIB, "M": MIB, "G": GIB}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


class SizeError(ValueError):
    """A size that no person could have meant; the text says what is accepted."""


def parse_size(text: str) -> int:
    """Bytes of a size as people write it: ``1GiB``, ``512 MiB``, ``4096``.

    :raises SizeError: on anything else, a negative number or an unknown unit
    """
    match = _SIZE.fullmatch(text)
    factor = _FACTORS.get(match.group(2).upper()) if match else None
    if match is None or factor is None:
        raise SizeError(f"{text!r} is not a size: write a number with KiB, MiB or GiB, for example 512MiB")
    return int(float(match.group(1)) * factor)


def mib(size: int | None) -> str:
    """A size for a person, in whole MiB; what is not known is a dash, never 0."""
    return "-" if size is None else f"{round(size / MIB)}"
