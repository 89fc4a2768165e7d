"""The ranges of numbers and texts in records: who reads a record from elsewhere refuses what lies outside of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MOST = 2**47  # bytes: 128 TiB, more than any host has; sums over a fleet stay within 64 bits

Size = Annotated[int, Meta(ge=0, le=MOST)]
"""Bytes of memory."""
Slot = Annotated[int, Meta(gt=0, le=MOST)]
"""Bytes of memory, and some: it is divided by."""
Balance = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""Bytes that are left, or that are missing where it is negative."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""How many, or bytes that were moved in all."""
Moment = Annotated[float, Meta(ge=0, le=253_402_300_799)]
"""Unix seconds, up to the year 9999."""
Seconds = Annotated[float, Meta(ge=0, le=2**40)]
"""A length of time."""
Period = Annotated[float, Meta(gt=0, le=86_400)]
"""Seconds between two reports."""
Percent = Annotated[float, Meta(ge=0, le=100_000)]
"""Of one processor, or of time; some are above 100."""
Identity = Annotated[str, Meta(min_length=1, max_length=255)]
"""What something is called where it is looked up."""
