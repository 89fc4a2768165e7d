"""Placement: a provider's memory inventory, what is claimed of it, and its allocation ratio."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol

from memhint.objects.provider import Inventory, Provider
from memhint.openstack.errors import NotThere, OpenStackError

MICROVERSION = "1.26"  # a capacity of 0 is accepted: a ratio of 0 closes a host
MEMORY = "MEMORY_MB"
TRAIT = "CUSTOM_MEMHINT_MANAGED"
_KEPT = ("min_unit", "max_unit", "step_size")
_NO_ANSWER = (KeyError, TypeError, ValueError, OverflowError, AttributeError)
"""What reading an answer raises that is none, but JSON of some other kind."""


class PlacementApi(Protocol):
    """Placement over HTTP: JSON in and out."""

    def get(self, path: str) -> Any:
        """The JSON at a path."""

    def put(self, path: str, body: Any) -> Any:
        """Replace it."""


class Placement:
    """The part of the service that memhint needs."""

    def __init__(self, service: PlacementApi) -> None:
        self._service = service

    def provider(self, uuid: str) -> Provider:
        """A provider as it is now.

        The generation is read first: what is claimed while the rest is read makes the write that follows fail.

        :raises NotThere: when there is no such provider, or it has no memory
        :raises OpenStackError: when Placement cannot be asked, or answers with something else
        """
        base = f"/resource_providers/{uuid}"
        inventory = self.inventory(uuid)
        name = self._service.get(base)
        claimed = self._service.get(f"{base}/allocations")
        try:
            allocations = {
                consumer: int(one["resources"].get(MEMORY, 0)) for consumer, one in claimed["allocations"].items()
            }
            return Provider(
                uuid, str(name["name"]), inventory, {who: size for who, size in allocations.items() if size}
            )
        except _NO_ANSWER as error:
            raise OpenStackError(f"Placement's answer about {uuid} cannot be read: {error!r}") from error

    def inventory(self, uuid: str) -> Inventory:
        """A provider's memory.

        :raises NotThere: when there is no such provider, or it has none
        :raises OpenStackError: when Placement cannot be asked, or answers with something else
        """
        found = self._service.get(f"/resource_providers/{uuid}/inventories/{MEMORY}")
        try:
            return Inventory(
                generation=int(found["resource_provider_generation"]),
                total=int(found["total"]),
                reserved=int(found["reserved"]),
                ratio=_ratio(found["allocation_ratio"]),
                rest={name: int(found[name]) for name in _KEPT},
            )
        except _NO_ANSWER as error:
            raise OpenStackError(f"Placement's inventory of {uuid} cannot be read: {error!r}") from error

    def set_ratio(self, uuid: str, inventory: Inventory, ratio: float) -> Inventory:
        """Change the allocation ratio and nothing else; the inventory after it.

        :raises Outdated: when anything about the provider has changed since ``inventory`` was read
        :raises OpenStackError: when Placement cannot be asked or refuses, or its answer is none
        """
        body = {
            "resource_provider_generation": inventory.generation,
            "total": inventory.total,
            "reserved": inventory.reserved,
            "allocation_ratio": ratio,
            **inventory.rest,
        }
        after = self._service.put(f"/resource_providers/{uuid}/inventories/{MEMORY}", body)
        try:
            return replace(inventory, generation=int(after["resource_provider_generation"]), ratio=ratio)
        except _NO_ANSWER as error:
            raise OpenStackError(f"whether {uuid} has its ratio is unknown, the answer is none: {error!r}") from error

    def mark(self, uuid: str, *, managed: bool) -> None:
        """Set or remove the trait that says that memhint keeps this provider's ratio.

        :raises Outdated: when the provider changed meanwhile
        :raises OpenStackError: when Placement cannot be asked or refuses, or its answer is none
        """
        have, generation = self._traits(uuid)
        wanted = have | {TRAIT} if managed else have - {TRAIT}
        if wanted == have:
            return
        if managed:
            try:
                self._service.get(f"/traits/{TRAIT}")
            except NotThere:
                self._service.put(f"/traits/{TRAIT}", {})
        path = f"/resource_providers/{uuid}/traits"
        self._service.put(path, {"traits": sorted(wanted), "resource_provider_generation": generation})

    def marked(self, uuid: str) -> bool:
        """Whether a provider bears the trait.

        :raises NotThere: when there is no such provider
        :raises OpenStackError: when Placement cannot be asked, or answers with something else
        """
        return TRAIT in self._traits(uuid)[0]

    def _traits(self, uuid: str) -> tuple[set[str], int]:
        """A provider's traits, and its generation."""
        found = self._service.get(f"/resource_providers/{uuid}/traits")
        try:
            return set(map(str, found["traits"])), int(found["resource_provider_generation"])
        except _NO_ANSWER as error:
            raise OpenStackError(f"Placement's traits of {uuid} cannot be read: {error!r}") from error


def _ratio(said: object) -> float:
    """:raises ValueError: what JSON has no number for, and Python reads nevertheless"""
    ratio = float(said)  # type: ignore[arg-type]
    if not math.isfinite(ratio):
        raise ValueError(f"a ratio of {ratio}")
    return ratio
