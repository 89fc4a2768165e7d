"""The growth table as a row, and back."""

from __future__ import annotations

from collections.abc import Mapping

from memhint.planner.growth import GrowthTable, checked
from memhint.store import codec
from memhint.store.errors import StoreDamaged

NO_TABLE: Mapping[str, object] = {"id": 1, "version": 0, "made": 0.0, "turn_until": 0.0, "document": ""}


def parse_table(document: str) -> GrowthTable:
    """The table of a document.

    :raises StoreDamaged: when it is none
    """
    try:
        return checked(codec.parse_as(document, GrowthTable))
    except ValueError as error:
        raise StoreDamaged(f"the growth table cannot be read: {error}") from error
