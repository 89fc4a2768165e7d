"""memhint's trait on the providers whose ratio it keeps."""

from __future__ import annotations

from memhint.controller.ratios.placement_api import TRIES, Pauses, PlacementApi
from memhint.objects.provider import ProviderRecord, Tenure
from memhint.openstack.errors import OpenStackError, Outdated


class Marks:
    """Sees to the trait once in this process's life."""

    def __init__(self, placement: PlacementApi, pauses: Pauses, *, write: bool) -> None:
        """:param write: False: nothing is set"""
        self._placement = placement
        self._pauses = pauses
        self._write = write
        self._there: set[str] = set()  # providers that bear the trait, as far as this process has seen to it

    def see_to(self, provider: str, standing: ProviderRecord | None) -> None:
        """Set it where it belongs: whoever wrote the ratio first may have failed, or ended, before the trait.

        :raises OpenStackError: when it cannot be set
        """
        if standing is None or standing.tenure is not Tenure.MANAGED or standing.written is None:
            self.forget(provider)
        elif self._write and provider not in self._there:
            self.set(provider)

    def set(self, provider: str) -> None:
        """Set it. A VM that is claimed at this moment is no reason to go without.

        :raises OpenStackError: when Placement cannot be asked, or the provider changes all the time
        """
        for attempt in range(TRIES):
            try:
                self._placement.mark(provider, managed=True)
                self._there.add(provider)
                return
            except Outdated:
                self._pauses.after(attempt)
        raise OpenStackError(f"the provider changed {TRIES} times while its trait was to be set")

    def forget(self, provider: str) -> None:
        """It may not be there any more."""
        self._there.discard(provider)
