"""Wishes as rows, and what can be read of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memhint.objects.policy import KEYS, Origin, PolicyError

Inputs = dict[Origin, dict[str, str]]
SEEN_EVERY = 86400.0  # seconds: so exactly it is kept when a VM was last seen
FORGET_AFTER = 90 * 86400.0
"""Seconds after which the wishes of a VM that is gone are forgotten. One that is defined anew within a hard reboot, or
comes back from another host, finds them."""


@dataclass(frozen=True, slots=True)
class StoredPolicies:
    """What can be read of the wishes, and what cannot."""

    inputs: dict[str, Inputs]  # by UUID and origin
    unreadable: dict[str, str]  # by UUID: which wish, in words
    rows: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)  # by UUID: origin and key of each


def wish_row(uuid: str, origin: Origin, key: str, value: str, at: float) -> Mapping[str, object]:
    """One wish, set at ``at`` (unix seconds), which moves on while its VM is seen."""
    return {"domain_uuid": uuid, "origin": str(origin), "key": key, "value": str(value), "set_at": at}


def read_wishes(rows: Iterable[Sequence[Any]]) -> StoredPolicies:
    """What rows of UUID, origin, key and value say; what does not exist is told by VM, and all else is there."""
    found = StoredPolicies({}, {})
    for domain, origin, key, value in rows:
        try:
            where, checked = Origin(origin), KEYS[key].check(value)
        except (KeyError, PolicyError, ValueError, AttributeError, TypeError):
            found.unreadable[domain] = (
                f"the stored policy {key}={value} ({origin}) of {domain} does not exist in this memhint; "
                "it is of another version or damaged"
            )
            found.rows[domain] = found.rows.get(domain, frozenset()) | {(str(origin), str(key))}
            continue
        found.inputs.setdefault(domain, {}).setdefault(where, {})[key] = checked
    return found
