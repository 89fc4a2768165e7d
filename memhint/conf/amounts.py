"""The largest amounts of memory that options take: what is made of them fits into a record (`objects/ranges.py`)."""

from __future__ import annotations

MOST_MIB = 100_000_000  # 95 TiB; with a VM's overhead it is below the 128 TiB of a record
MOST_OVERHEAD_MIB = 100_000  # of one VM: a host may have thousands, and their sum is reported
