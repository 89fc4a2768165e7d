"""What can be wrong with the store. Every text says what to do next."""

from __future__ import annotations


class StoreError(Exception):
    """The store could not be used."""


class StoreMissing(StoreError):
    """There is no store yet: no agent has run here."""


class StoreVersion(StoreError):
    """The store was made by a newer memhint, or has not been upgraded yet."""


class StoreDamaged(StoreError):
    """Something in the store cannot be what memhint wrote."""


class StoreRefused(StoreError):
    """The database is there and does not take a value: the same again would end the same way."""


class StoreFailed(StoreError):
    """The database answered with an error that nothing in its state explains: what it was told may be to blame."""


NOT_AWAY = (StoreRefused, StoreDamaged, StoreFailed)
"""The database is there: a row or what it was told is to blame, and others may be well."""


class ChangesExpired(StoreError):
    """What has changed since then can no longer be told: a whole list is needed."""


class MarkerError(ValueError):
    """A marker that no list in this order has given, or an order that there is not."""
