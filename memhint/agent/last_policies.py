"""What holds for each VM, also while the store cannot say so."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from memhint.agent.observer import Observation, facts_of
from memhint.agent.policies import Policies
from memhint.agent.view import HostSnapshot
from memhint.objects.gap import Gap, GapReason
from memhint.objects.policy import Policy, careful, effective
from memhint.store.errors import StoreError

LOG = logging.getLogger(__name__)


class LastPolicies:
    """The policies of the last cycle. With the store away they go on.

    Of a VM of which none was known before, a denial may be what cannot be read: nothing is done to it.
    """

    def __init__(self, policies: Policies) -> None:
        self._source = policies
        self._known: dict[str, Policy] = {}
        self._doubted: frozenset[str] = frozenset()  # VMs of which a wish could not be read

    def inherit(self, before: LastPolicies) -> None:
        """Go on from those of an earlier agent of this process."""
        self._known, self._doubted = before._known, before._doubted

    def view(self, at: float, seen: Observation) -> HostSnapshot:
        """What was seen, with what holds for it.

        :param at: unix seconds
        """
        facts = facts_of(seen.domains)
        unreadable: Mapping[str, str]
        try:
            found = self._source.update(facts)
            self._known = {**self._known, **found.policies}
            unreadable = found.unreadable
            self._doubted = frozenset(unreadable)
            gaps: tuple[Gap, ...] = ()
            if found.unkept:
                LOG.error("policies that changed cannot be kept, they hold as they were read: %s", found.unkept)
                gaps = (Gap("policies", GapReason.UNREADABLE, found.unkept),)
        except StoreError as error:
            LOG.error("the policies cannot be read, those known so far hold: %s", error)
            gaps = (Gap("policies", GapReason.UNREADABLE, str(error)),)
            self._doubted |= facts.keys() - self._known.keys()
            self._known = {**self._source.without_store(facts), **self._known}
            unreadable = dict.fromkeys(self._doubted, str(error))
        return self._of(at, seen, unreadable, gaps)

    def known(self, at: float, seen: Observation) -> HostSnapshot:
        """What was seen, with what was known of it before."""
        return self._of(at, seen, dict.fromkeys(self._doubted, "not read again"), ())

    def _of(self, at: float, seen: Observation, unreadable: Mapping[str, str], gaps: tuple[Gap, ...]) -> HostSnapshot:
        present = {one.uuid for one in seen.domains}
        self._known = {uuid: policy for uuid, policy in self._known.items() if uuid in present}
        policies = {uuid: self._known.get(uuid, careful(effective({}))) for uuid in present}
        doubted = {uuid: why for uuid, why in unreadable.items() if uuid in present}
        return HostSnapshot(at, seen, policies, doubted, gaps)
