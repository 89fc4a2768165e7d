"""What can go wrong between memhint and OpenStack's services."""

from __future__ import annotations


class OpenStackError(Exception):
    """A service cannot be reached, or refuses; the text says what to do."""


class Unreachable(OpenStackError):
    """A service does not answer. What was asked of it may come about all the same."""


class NotThere(OpenStackError):
    """What was asked for does not exist."""


class Outdated(OpenStackError):
    """Somebody changed it since it was read: read it and decide again."""
