"""What can go wrong between the plugin and the admin API."""

from __future__ import annotations


class LookFailed(Exception):
    """One look at the API brought nothing; the text says why. What was known stays, and ages."""


class TokenExpired(LookFailed):
    """The API no longer knows where the last look ended: begin again."""
