"""The versions of the tables, in one place that needs no database."""

from __future__ import annotations

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
)  # every one that this memhint knows, oldest first
HEAD = REVISIONS[-1]
