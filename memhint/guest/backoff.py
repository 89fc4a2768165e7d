"""How long to leave a guest alone after it failed."""

from __future__ import annotations

from memhint.backoff import Backoff

__all__ = ["Backoff"]
