"""The interface of everything that can ask a guest's agent for the guest's memory."""

from __future__ import annotations

from typing import Protocol

from memhint.guest.capabilities import Capabilities
from memhint.guest.protocol import GuestAgent
from memhint.objects.guest import GuestMemory, GuestSource
from memhint.objects.verdict import Verdict


class GuestSourceReader(Protocol):
    """One way to learn of a guest's memory through its agent."""

    @property
    def name(self) -> GuestSource:
        """Which source this is; its place in GuestSource is its rank."""
        ...

    def probe(self, capabilities: Capabilities) -> Verdict:
        """Whether this guest can be read this way (``ok``), or what it lacks. Asks no guest."""
        ...

    def read(self, agent: GuestAgent, at: float, assigned: int) -> GuestMemory:
        """The guest's memory, clamped to ``assigned`` bytes. ``at`` is now, in unix seconds.

        :raises GuestError: why there is none
        """
        ...
