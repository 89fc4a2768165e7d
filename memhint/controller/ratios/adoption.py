"""How memhint stands to a provider: whose the ratio is that it comes to."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from memhint.controller.ratios.host_events import HostEvents
from memhint.controller.ratios.marks import Marks
from memhint.controller.ratios.own_writes import OwnWrites
from memhint.controller.ratios.placement_api import PlacementApi
from memhint.controller.ratios.readings import ProviderReadings
from memhint.objects.provider import Provider, ProviderRecord, Tenure
from memhint.planner.capacity_write import HostCapacity
from memhint.store.capacities import Capacities

LOG = logging.getLogger(__name__)
_UNKNOWN = 1.0  # the ratio that is put back where nobody knows any more which one was found


@dataclass(slots=True, kw_only=True)
class Adoption:
    """Comes to providers, new ones and known ones, and to those that were made again."""

    standings: Capacities
    placement: PlacementApi
    readings: ProviderReadings
    own: OwnWrites
    marks: Marks
    events: HostEvents
    write: bool  # False: a trial
    trial: dict[str, ProviderRecord] = field(init=False, default_factory=dict)  # what a trial found, by provider

    def observed(self, provider: str) -> ProviderRecord | None:
        """What a trial found there."""
        return self.trial.get(provider)

    def come_to(self, view: HostCapacity, known: Provider, *, new: bool) -> ProviderRecord:
        """The provider's standing. A trial keeps none: what it found may be gone when memhint begins to write.

        :param new: whether the database knew nothing of it
        """
        provider = known.uuid
        if self.write:
            if new and not self.own.knows(provider) and self._of_another_life(provider):
                return self._known_by_trait(view, known)
            standing = self.standings.adopt(provider, view.host, self.own.found(known))
            return self._made_again(standing, known) if self.readings.was_absent(provider) else standing
        kept = self.standings.one(provider)
        self.trial[provider] = kept or ProviderRecord(provider, view.host, known.inventory.ratio)
        return self.trial[provider]

    def _of_another_life(self, provider: str) -> bool:
        """Whether memhint has written there, and the database knows nothing of that: it is new, or of before.

        The trait is read first: where another controller set it just now, its standing is there by then.
        """
        return self.placement.marked(provider) and self.standings.one(provider) is None

    def _known_by_trait(self, view: HostCapacity, known: Provider) -> ProviderRecord:
        """The standing of a provider whose ratio is memhint's own, and never was the one that memhint came to."""
        now = known.inventory.ratio
        standing = self.standings.adopt(known.uuid, view.host, _UNKNOWN, written=now)
        whose = f"the ratio {now:g} is memhint's own, which the database does not know any more"
        self.events.hindered(view.host, f"{whose}: {_UNKNOWN:g} is taken for the one that was found")
        return standing

    def _made_again(self, standing: ProviderRecord, known: Provider) -> ProviderRecord:
        """The standing of a provider that was not there for a while. Where it came back without the trait it is a new
        one, as of a compute service that was deleted and begun again: its ratio is nova-compute's, and no stranger's.
        """
        provider, now = standing.provider, known.inventory.ratio
        if standing.tenure is not Tenure.RELEASED and not self.placement.marked(provider):
            self.marks.forget(provider)
            self.own.forget(provider)
            if not standing.ours(now):
                standing = self.standings.adopt(provider, standing.host, now, again=True)
                LOG.info("%s: its provider %s was made anew, with the ratio %g", standing.host, provider, now)
        self.readings.is_back(provider)
        return standing
