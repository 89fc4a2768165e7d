"""What can be wrong with the bus."""

from __future__ import annotations


class BusError(Exception):
    """The bus could not be used."""


class Poison(BusError):
    """A message that no repetition makes acceptable: it is not what memhint sends, or not from whom it says."""


class TooLong(Poison):
    """A message of more bytes than any is read of."""


class HostAway(BusError):
    """No agent of this host listens for commands."""


class CommandTimeout(BusError):
    """The agent did not answer within the deadline; whether it did what was asked is not known."""
