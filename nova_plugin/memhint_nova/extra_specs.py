"""Validators of the ``memhint:*`` extra specs, which Nova's API asks from microversion 2.86 on."""

from __future__ import annotations

from typing import Any

from nova import exception
from nova.api.validation.extra_specs import base

from memhint_nova.keys import KEYS, Choice, Key


class MemhintValidator(base.ExtraSpecValidator):
    """One key. Nova's own types know no range beside a word, so the key itself is asked."""

    def __init__(self, key: Key) -> None:
        value: dict[str, Any] = {"type": str, "description": key.kind.accepted}
        if isinstance(key.kind, Choice):
            value["enum"] = list(key.kind.words)
        super().__init__(name=key.spec, description=key.help, value=value)
        self._key = key

    def validate(self, name: str, value: str) -> None:
        """Raise ValidationError where the key does not take this value."""
        super().validate(name, value)
        if self._key.kind.check(value) is None:
            raise exception.ValidationError(f"Validation failed; '{value}' is none of: {self._key.kind.accepted}.")


def register() -> list[base.ExtraSpecValidator]:
    """Every validator, for Nova's loader."""
    return [MemhintValidator(key) for key in KEYS.values()]
