"""MemhintWeigher: packs, or spreads, by measured headroom instead of nominal free memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import nova.conf
from nova.scheduler import utils, weights

from memhint_nova.shared import shared


class MemhintWeigher(weights.BaseHostWeigher):
    """The least headroom left weighs most; a multiplier below 0 turns that round.

    A host whose measurement is of no use weighs by nominal accounting.
    """

    def __init__(self) -> None:
        super().__init__()
        self._shared = shared(nova.conf.CONF)
        self._multiplier: float = nova.conf.CONF.memhint.weight_multiplier

    def weight_multiplier(self, host_state: Any) -> float:
        """``memhint_weight_multiplier`` of the aggregate, else [memhint] weight_multiplier."""
        if not host_state.aggregates:
            return self._multiplier
        return float(utils.get_weight_multiplier(host_state, "memhint_weight_multiplier", self._multiplier))

    def weigh_objects(self, weighed_obj_list: Iterable[Any], weight_properties: Any) -> list[float]:
        """One snapshot for all hosts of a request, and one look at the option: Nova asks for it once for each host."""
        self._multiplier = nova.conf.CONF.memhint.weight_multiplier
        weighed = self._shared.judge().weighed
        return [-weighed(one.obj) for one in weighed_obj_list]

    def _weigh_object(self, obj: Any, weight_properties: Any) -> float:
        return -self._shared.judge().weighed(obj)
