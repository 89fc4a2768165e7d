"""Which of a fleet's VMs are of the class guaranteed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memhint.sim.fleet import Fleet

_OWN = 7  # keeps these draws apart from those that made the fleet


def with_guaranteed(fleet: Fleet, share: float, seed: int) -> Fleet:
    """The same fleet, with each VM guaranteed by chance.

    :param share: how many, 0 to 1
    """
    drawn = np.random.default_rng([seed, _OWN]).random(fleet.vms) < share
    return replace(fleet, guaranteed=drawn, name=f"{fleet.name}, {100 * share:g} % guaranteed")
