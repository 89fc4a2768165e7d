"""The way back: the ratio that was found, and no trait."""

from __future__ import annotations

from memhint.controller.ratios.placement_api import TRIES, PlacementApi
from memhint.objects.provider import ProviderRecord
from memhint.openstack.errors import NotThere, OpenStackError, Outdated
from memhint.store.capacities import Capacities

UNDONE = "uninstall has not come to its end here: run memhint openstack uninstall again"


def release(standing: ProviderRecord, standings: Capacities, placement: PlacementApi) -> str:
    """Put back the ratio that was found, where memhint's own is still there; what became of it, in words.

    Controllers may write meanwhile. Where it fails, or ends before its time, the standing says so.

    :param standing: as it was at any time before
    :raises OpenStackError: when Placement cannot be asked, or the provider changes all the time
    :raises StoreError: when the database fails
    """
    for _ in range(TRIES):
        try:
            # First of all no controller may begin any more. One that has begun has read the provider before: either
            # its write is seen here, and known by what it intended, or the one from here has it land no more.
            standing = standings.release(standing.provider, UNDONE) or standing
            known = placement.provider(standing.provider)
            now, said = known.inventory.ratio, "left as it is: somebody else has changed it"
            if standing.may_go_back(now):
                placement.set_ratio(standing.provider, known.inventory, standing.adopted)
                said = f"{now:g} -> {standing.adopted:g}"
            placement.mark(standing.provider, managed=False)
        except Outdated:
            continue
        except NotThere:
            said = "the provider is gone"
        standings.release(standing.provider, "uninstalled")
        return said
    raise OpenStackError(f"{standing.host}: the provider changes all the time; try again")
