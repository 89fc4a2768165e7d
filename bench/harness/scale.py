"""How much of a bench is run."""

from __future__ import annotations

from enum import StrEnum


class Scale(StrEnum):
    """Each bench says what they mean for it."""

    SMOKE = "smoke"
    """A minute or less, to see that the bench still works; its figures say nothing."""
    SHORT = "short"
    """Two to twenty minutes; `recycle` takes more than an hour."""
    FULL = "full"
    """About an hour at most."""
    SEED = "seed"
    """The sizes of the published test, where the bench has them and the machine can; `FULL` otherwise."""
