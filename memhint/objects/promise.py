"""What a host promised, against what came."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PromisedHour:
    """One hour of a host. Bytes; ``at`` is when it began, in unix seconds."""

    at: float
    promised: int  # the headroom as the hour began
    came: int  # what the host could have given at its worst in that hour; negative where it lacked memory

    @property
    def held(self) -> bool:
        """Whether all that was promised could have been given."""
        return self.came >= self.promised


@dataclass(frozen=True, slots=True)
class KeptPromises:
    """How a host kept its promises: hours that were judged since ``since`` (unix seconds), and those that held.

    ``worst`` are a few of them, the one that lacked most, or had least to spare, first.
    """

    hours: int
    held: int
    since: float
    worst: tuple[PromisedHour, ...] = ()
