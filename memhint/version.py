"""Which memhint this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _of


def version() -> str | None:
    """The version of the installed package; None where memhint runs from a tree that was never installed."""
    try:
        return _of("memhint")
    except PackageNotFoundError:
        return None
