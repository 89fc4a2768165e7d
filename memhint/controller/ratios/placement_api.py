"""What is asked of Placement, and how it is asked again while somebody else changes a provider."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from memhint.objects.provider import Inventory, Provider

TRIES = 10  # of one write, when somebody else changes the provider in between
_PAUSE = 0.05  # seconds, the middle of the first pause between two of them


class PlacementApi(Protocol):
    """What is asked of Placement."""

    def provider(self, uuid: str) -> Provider:
        """A provider as it is now."""

    def set_ratio(self, uuid: str, inventory: Inventory, ratio: float) -> Inventory:
        """Change the ratio, unless the provider has changed since the inventory was read."""

    def mark(self, uuid: str, *, managed: bool) -> None:
        """Set or remove memhint's trait."""

    def marked(self, uuid: str) -> bool:
        """Whether it bears the trait."""


class Pauses:
    """Between two tries of one write: at random, and longer each time."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self._sleep = sleep

    def after(self, attempt: int) -> None:
        """Wait after the try of this number, counted from 0."""
        self._sleep(random.uniform(0, 2 * _PAUSE * 2 ** min(attempt, 5)))
